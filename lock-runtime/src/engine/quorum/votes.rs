//! Counting votes.

use crate::engine::error::EngineError;
use crate::engine::member::{Member, Vote};
use crate::engine::quorum::majority::{NoMajority, Said};
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;

/// What each member has said so far when it was asked for one token.
pub(crate) struct Votes {
    ours: Box<[u8]>,
    votes: Vec<Option<Vote>>,
}

/// How far the count has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// All that are missing may come at any moment.
    Early,
    /// Those that are missing take longer than the others did.
    Late,
    /// What is missing won't come any more.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Open,
    Won,
    /// A majority is somebody else's.
    Lost,
    /// The members are divided among several. One of them comes before the others: all see which.
    Split {
        ours_is_first: bool,
    },
    /// Too few have answered.
    Unknown,
}

impl Votes {
    pub(crate) fn new(members: usize, token: Token) -> Votes {
        Votes {
            ours: token.encode(&mut [0; 32]).as_bytes().into(),
            votes: vec![None; members],
        }
    }

    pub(crate) fn cast(&mut self, member: usize, vote: Vote) {
        self.votes[member] = Some(vote);
    }

    /// Those who may say something else when they are asked again, from whom nothing is missing.
    pub(crate) fn ask_again(&mut self) -> Vec<usize> {
        let again = |vote: &Option<Vote>| match vote {
            Some(Vote::Held { .. }) => true,
            Some(Vote::Failed(error)) => error.is_transient(),
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

    /// Those where somebody else has it.
    pub(crate) fn held(&self) -> impl Iterator<Item = usize> {
        let votes = self.votes.iter().enumerate();
        votes.filter_map(|(member, vote)| match vote {
            Some(Vote::Held { .. }) => Some(member),
            _ => None,
        })
    }

    pub(crate) fn missing(&self) -> usize {
        self.votes.iter().filter(|vote| vote.is_none()).count()
    }

    /// How many have said whose the lock is.
    pub(crate) fn answered(&self) -> usize {
        let answered = |vote: &&Option<Vote>| !matches!(vote, None | Some(Vote::Failed(_)));
        self.votes.iter().filter(answered).count()
    }

    pub(crate) fn verdict(&self, phase: Phase) -> Verdict {
        let granted = self.granted();
        let (most, strongest) = self.strongest();
        if granted >= self.majority() {
            return Verdict::Won;
        }
        if most >= self.majority() {
            return Verdict::Lost;
        }
        let missing = self.missing() > 0;
        if missing && phase == Phase::Early {
            return Verdict::Open;
        }
        if most > 0 && self.answered() >= self.majority() {
            let ours_is_first = granted > 0 && (granted, &*self.ours) > (most, strongest);
            return Verdict::Split { ours_is_first };
        }
        match missing && phase == Phase::Late {
            true => Verdict::Open,
            false => Verdict::Unknown,
        }
    }

    /// How long at least until a majority can be free.
    pub(crate) fn free_in(&self) -> Duration {
        let left = |vote: &Option<Vote>| match vote {
            Some(Vote::Held { left, .. }) => *left,
            _ => Duration::ZERO,
        };
        let mut left: Vec<Duration> = self.votes.iter().map(left).collect();
        left.sort_unstable();
        left[self.majority() - 1]
    }

    /// Why no majority was had, member by member.
    pub(crate) fn error(&self, members: &[Arc<dyn Member>]) -> EngineError {
        let said = self.votes.iter().map(|vote| match vote {
            None => Said::Words("no answer yet"),
            Some(Vote::Granted) => Said::Words("granted"),
            Some(Vote::Held { .. }) => Said::Words("held by another"),
            Some(Vote::Failed(error)) => Said::Failed(error.clone()),
        });
        NoMajority::error(members, said)
    }

    fn granted(&self) -> usize {
        let granted = |vote: &&Option<Vote>| matches!(vote, Some(Vote::Granted));
        self.votes.iter().filter(granted).count()
    }

    /// Who else has most votes, and how many; of several the one whose token is the greatest.
    fn strongest(&self) -> (usize, &[u8]) {
        let holder = |vote| match vote {
            &Some(Vote::Held { ref by, .. }) => Some(&**by),
            _ => None,
        };
        let holders = || self.votes.iter().filter_map(holder);
        let count = |by: &[u8]| holders().filter(|other| *other == by).count();
        let counts = holders().map(|by| (count(by), by));
        counts.max().unwrap_or_default()
    }
}

/// How many of so many are more than half.
pub(crate) fn majority(members: usize) -> usize {
    members / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::Fault;

    /// One letter a member: `m` mine, `-` nothing yet, `x` no answer, any other somebody else's.
    fn votes(told: &str) -> Votes {
        let mut votes = Votes::new(told.len(), Token::fresh());
        votes.ours = b"m".as_slice().into();
        for (member, said) in told.bytes().enumerate() {
            let left = Duration::from_secs(u64::from(said));
            let vote = match said {
                b'-' => continue,
                b'm' => Vote::Granted,
                b'x' => Vote::Failed(EngineError::new(Fault::Down, "as told")),
                by => Vote::Held {
                    by: [by].into(),
                    left,
                },
            };
            votes.cast(member, vote);
        }
        votes
    }

    fn verdict(told: &str, phase: Phase) -> Verdict {
        votes(told).verdict(phase)
    }

    #[test]
    fn a_majority_decides_at_once() {
        for won in ["mm-", "m-m", "mmm", "mmm--", "m-xmm", "mmmzz"] {
            assert_eq!(verdict(won, Phase::Early), Verdict::Won, "{won}");
        }
        for lost in ["aa-", "a-a", "aa-a-", "mmaaa", "xaaax"] {
            assert_eq!(verdict(lost, Phase::Early), Verdict::Lost, "{lost}");
        }
    }

    #[test]
    fn less_than_a_majority_decides_nothing_until_all_have_had_their_time() {
        for open in ["m--", "-a-", "am-", "mmaa-", "abc--", "xx---"] {
            assert_eq!(verdict(open, Phase::Early), Verdict::Open, "{open}");
        }
        for open in ["m--", "mm---", "mmx--", "ax--x"] {
            assert_eq!(verdict(open, Phase::Late), Verdict::Open, "{open}");
            assert_eq!(verdict(open, Phase::Over), Verdict::Unknown, "{open}");
        }
        assert_eq!(verdict("mxx", Phase::Early), Verdict::Unknown);
    }

    #[test]
    fn of_several_the_one_with_most_votes_is_first_or_else_the_greatest_token() {
        for (told, ours_is_first) in [
            ("mmaax", true),
            ("mmzzx", false),
            ("mmazx", true),
            ("mzzax", false),
            ("abcxx", false),
            ("mab--", true),
            ("mzb--", false),
        ] {
            let split = Verdict::Split { ours_is_first };
            assert_eq!(verdict(told, Phase::Late), split, "{told}");
            assert_eq!(verdict(told, Phase::Over), split, "{told}");
        }
    }

    /// Whoever asks, all see the same one first.
    #[test]
    fn exactly_one_is_first() {
        for owners in ["aabbx", "abcde", "aabbc", "abbca", "xabbc"] {
            let as_seen_by = |me: char| owners.replace(me, "m").replace('m', &me.to_string());
            let first = |me: char| {
                let mut votes = votes(&as_seen_by(me));
                for vote in &mut votes.votes {
                    if matches!(vote, Some(Vote::Held { by, .. }) if **by == [me as u8]) {
                        *vote = Some(Vote::Granted);
                    }
                }
                votes.ours = [me as u8].into();
                votes.verdict(Phase::Over)
                    == (Verdict::Split {
                        ours_is_first: true,
                    })
            };
            let firsts = ('a'..='e').filter(|me| owners.contains(*me) && first(*me));
            assert_eq!(firsts.count(), 1, "{owners}");
        }
    }

    #[test]
    fn a_lock_is_free_when_a_majority_is() {
        let seconds = |letter: u8| Duration::from_secs(u64::from(letter));
        assert_eq!(votes("abc").free_in(), seconds(b'b'));
        assert_eq!(votes("xbc").free_in(), seconds(b'b'));
        assert_eq!(votes("xxc").free_in(), Duration::ZERO);
        assert_eq!(votes("dcbaa").free_in(), seconds(b'b'));
    }

    #[test]
    fn who_said_no_is_asked_again_and_who_said_nothing_is_not() {
        let mut votes = votes("ma-xa");
        assert_eq!(votes.ask_again(), [1, 3, 4]);
        assert_eq!(votes.missing(), 4);
        assert_eq!(votes.ask_again(), [0; 0]);
    }
}
