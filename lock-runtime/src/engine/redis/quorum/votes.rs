//! Counting votes.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::majority::{MemberReply, NoMajority, majority};
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::vote::Vote;
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;

/// The members' votes for one token so far.
pub(crate) struct Votes {
    our_token: Box<[u8]>,
    votes: Vec<Option<Vote>>,
}

/// The phase of a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CountPhase {
    /// Missing votes may arrive at any moment.
    Collecting,
    /// Missing votes take longer than the others did.
    Stragglers,
    /// No more votes will arrive.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Undecided,
    Won,
    /// A majority voted for one other claim.
    Lost,
    /// Several claims split the votes. One of them leads, and all claims agree on which.
    Split {
        we_lead: bool,
    },
    /// Too few members replied.
    NoQuorum,
}

impl Votes {
    pub(crate) fn new(members: usize, token: Token) -> Votes {
        Votes {
            our_token: token.encode(&mut [0; 37]).as_bytes().into(),
            votes: vec![None; members],
        }
    }

    pub(crate) fn record(&mut self, member: usize, vote: Vote) {
        self.votes[member] = Some(vote);
    }

    /// Clears the votes that may differ if they are requested again, and returns their members. Missing votes
    /// are not among them.
    pub(crate) fn take_retryable(&mut self) -> Vec<usize> {
        let again = |vote: &Option<Vote>| match vote {
            Some(Vote::Held { .. }) => true,
            Some(Vote::Failed(error)) => error.is_retryable(),
            _ => false,
        };
        let members = 0..self.votes.len();
        let again: Vec<usize> = members.filter(|&m| again(&self.votes[m])).collect();
        for &member in &again {
            self.votes[member] = None;
        }
        again
    }

    pub(crate) fn majority(&self) -> usize {
        majority(self.votes.len())
    }

    /// Returns the members at which another claim holds the lock.
    pub(crate) fn held_by_others(&self) -> impl Iterator<Item = usize> {
        let votes = self.votes.iter().enumerate();
        votes.filter_map(|(member, vote)| match vote {
            Some(Vote::Held { .. }) => Some(member),
            _ => None,
        })
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.votes.iter().filter(|vote| vote.is_none()).count()
    }

    /// Returns the number of members that replied with the lock's holder.
    pub(crate) fn replied(&self) -> usize {
        let replied = |vote: &&Option<Vote>| !matches!(vote, None | Some(Vote::Failed(_)));
        self.votes.iter().filter(replied).count()
    }

    pub(crate) fn verdict(&self, phase: CountPhase) -> Verdict {
        let granted = self.granted();
        let (most, leading_rival) = self.leading_rival();
        if granted >= self.majority() {
            return Verdict::Won;
        }
        if most >= self.majority() {
            return Verdict::Lost;
        }
        let outstanding = self.outstanding() > 0;
        if outstanding && phase == CountPhase::Collecting {
            return Verdict::Undecided;
        }
        if most > 0 && self.replied() >= self.majority() {
            let we_lead = granted > 0 && (granted, &*self.our_token) > (most, leading_rival);
            return Verdict::Split { we_lead };
        }
        match outstanding && phase == CountPhase::Stragglers {
            true => Verdict::Undecided,
            false => Verdict::NoQuorum,
        }
    }

    /// Returns the least time until a majority can be free.
    pub(crate) fn earliest_free(&self) -> Duration {
        let ttl = |vote: &Option<Vote>| match vote {
            Some(Vote::Held { ttl, .. }) => *ttl,
            _ => Duration::ZERO,
        };
        let mut ttl: Vec<Duration> = self.votes.iter().map(ttl).collect();
        ttl.sort_unstable();
        ttl[self.majority() - 1]
    }

    /// Returns the error for a count without a majority, which lists each member's vote.
    pub(crate) fn error(&self, members: &[Arc<dyn Member>]) -> EngineError {
        let said = self.votes.iter().map(|vote| match vote {
            None => MemberReply::Text("no reply yet"),
            Some(Vote::Granted) => MemberReply::Text("granted"),
            Some(Vote::Held { .. }) => MemberReply::Text("held by another"),
            Some(Vote::Failed(error)) => MemberReply::Failed(error.clone()),
        });
        NoMajority::error(members, said)
    }

    /// Returns who has the most votes besides us.
    pub(crate) fn holder(&self) -> Option<Token> {
        Token::read(self.leading_rival().1)
    }

    fn granted(&self) -> usize {
        let granted = |vote: &&Option<Vote>| matches!(vote, Some(Vote::Granted));
        self.votes.iter().filter(granted).count()
    }

    /// Returns the number of votes and the token of the strongest other claim; among equals, the greatest
    /// token.
    fn leading_rival(&self) -> (usize, &[u8]) {
        let holder = |vote| match vote {
            &Some(Vote::Held { ref holder, .. }) => Some(&**holder),
            _ => None,
        };
        let holders = || self.votes.iter().filter_map(holder);
        let count = |holder: &[u8]| holders().filter(|other| *other == holder).count();
        let counts = holders().map(|holder| (count(holder), holder));
        counts.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::EngineErrorKind;

    /// One letter per member: `m` for our claim, `-` for no reply yet, `x` for a failure, any other for
    /// another claim.
    fn votes(replies: &str) -> Votes {
        let mut votes = Votes::new(replies.len(), Token::random());
        votes.our_token = b"m".as_slice().into();
        for (member, said) in replies.bytes().enumerate() {
            let ttl = Duration::from_secs(u64::from(said));
            let vote = match said {
                b'-' => continue,
                b'm' => Vote::Granted,
                b'x' => Vote::Failed(EngineError::new(EngineErrorKind::NotConnected, "scripted")),
                holder => Vote::Held {
                    holder: [holder].into(),
                    ttl,
                },
            };
            votes.record(member, vote);
        }
        votes
    }

    fn verdict(replies: &str, phase: CountPhase) -> Verdict {
        votes(replies).verdict(phase)
    }

    #[test]
    fn a_majority_decides_at_once() {
        for won in ["mm-", "m-m", "mmm", "mmm--", "m-xmm", "mmmzz"] {
            assert_eq!(verdict(won, CountPhase::Collecting), Verdict::Won, "{won}");
        }
        for lost in ["aa-", "a-a", "aa-a-", "mmaaa", "xaaax"] {
            assert_eq!(
                verdict(lost, CountPhase::Collecting),
                Verdict::Lost,
                "{lost}"
            );
        }
    }

    #[test]
    fn without_a_majority_nothing_is_decided_until_stragglers_are_late() {
        for open in ["m--", "-a-", "am-", "mmaa-", "abc--", "xx---"] {
            assert_eq!(
                verdict(open, CountPhase::Collecting),
                Verdict::Undecided,
                "{open}"
            );
        }
        for open in ["m--", "mm---", "mmx--", "ax--x"] {
            assert_eq!(
                verdict(open, CountPhase::Stragglers),
                Verdict::Undecided,
                "{open}"
            );
            assert_eq!(
                verdict(open, CountPhase::Closed),
                Verdict::NoQuorum,
                "{open}"
            );
        }
        assert_eq!(verdict("mxx", CountPhase::Collecting), Verdict::NoQuorum);
    }

    #[test]
    fn most_votes_lead_and_the_greatest_token_breaks_ties() {
        for (replies, we_lead) in [
            ("mmaax", true),
            ("mmzzx", false),
            ("mmazx", true),
            ("mzzax", false),
            ("abcxx", false),
            ("mab--", true),
            ("mzb--", false),
        ] {
            let split = Verdict::Split { we_lead };
            assert_eq!(verdict(replies, CountPhase::Stragglers), split, "{replies}");
            assert_eq!(verdict(replies, CountPhase::Closed), split, "{replies}");
        }
    }

    /// Every claim computes the same leader.
    #[test]
    fn exactly_one_claim_leads() {
        for owners in ["aabbx", "abcde", "aabbc", "abbca", "xabbc"] {
            let as_seen_by = |me: char| owners.replace(me, "m").replace('m', &me.to_string());
            let first = |me: char| {
                let mut votes = votes(&as_seen_by(me));
                for vote in &mut votes.votes {
                    if matches!(vote, Some(Vote::Held { holder, .. }) if **holder == [me as u8]) {
                        *vote = Some(Vote::Granted);
                    }
                }
                votes.our_token = [me as u8].into();
                votes.verdict(CountPhase::Closed) == (Verdict::Split { we_lead: true })
            };
            let firsts = ('a'..='e').filter(|me| owners.contains(*me) && first(*me));
            assert_eq!(firsts.count(), 1, "{owners}");
        }
    }

    #[test]
    fn a_lock_is_free_once_a_majority_is_free() {
        let seconds = |letter: u8| Duration::from_secs(u64::from(letter));
        assert_eq!(votes("abc").earliest_free(), seconds(b'b'));
        assert_eq!(votes("xbc").earliest_free(), seconds(b'b'));
        assert_eq!(votes("xxc").earliest_free(), Duration::ZERO);
        assert_eq!(votes("dcbaa").earliest_free(), seconds(b'b'));
    }

    #[test]
    fn refusals_and_failures_are_retried_but_missing_votes_are_not() {
        let mut votes = votes("ma-xa");
        assert_eq!(votes.take_retryable(), [1, 3, 4]);
        assert_eq!(votes.outstanding(), 4);
        assert_eq!(votes.take_retryable(), [0; 0]);
    }
}
