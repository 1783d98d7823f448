//! The members' replies to a request that succeeds or fails.

use crate::engine::error::EngineError;
use crate::engine::redis::quorum::majority::{MemberReply, NoMajority, majority};
use crate::engine::redis::quorum::member::Member;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Replies {
    replies: Vec<Option<Result<bool, EngineError>>>,
}

impl Replies {
    pub(crate) fn new(members: usize) -> Replies {
        Replies {
            replies: vec![None; members],
        }
    }

    pub(crate) fn record(&mut self, member: usize, reply: Result<bool, EngineError>) {
        self.replies[member] = Some(reply);
    }

    /// Returns `Some(true)` once a majority agreed, `Some(false)` once none can agree, and `None` until then.
    pub(crate) fn decided(&self) -> Option<bool> {
        let members = self.replies.len();
        if self.count(true) >= majority(members) {
            Some(true)
        } else if self.count(false) > members - majority(members) {
            Some(false)
        } else {
            None
        }
    }

    /// Returns the error for undecided replies, which lists each member's reply.
    pub(crate) fn error(
        &self,
        members: &[Arc<dyn Member>],
        yes: &'static str,
        no: &'static str,
    ) -> EngineError {
        let replies = self.replies.iter().map(|reply| match reply {
            None => MemberReply::Text("no reply yet"),
            Some(Ok(reply)) => MemberReply::Text(if *reply { yes } else { no }),
            Some(Err(error)) => MemberReply::Failed(error.clone()),
        });
        NoMajority::error(members, replies)
    }

    fn count(&self, reply: bool) -> usize {
        let same = |it: &&Option<_>| matches!(it, Some(Ok(replies)) if *replies == reply);
        self.replies.iter().filter(same).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::EngineErrorKind;

    #[test]
    fn decided_once_missing_replies_cannot_change_the_result() {
        for (letters, decided) in [
            ("yy-", Some(true)),
            ("y-y", Some(true)),
            ("nn-", Some(false)),
            ("yn-", None),
            ("ynx", None),
            ("xx-", None),
            ("yynn-", None),
            ("yynny", Some(true)),
            ("xnnxn", Some(false)),
        ] {
            let mut replies = Replies::new(letters.len());
            for (member, letter) in letters.bytes().enumerate() {
                match letter {
                    b'-' => {}
                    b'x' => replies.record(
                        member,
                        Err(EngineError::new(EngineErrorKind::NotConnected, "scripted")),
                    ),
                    _ => replies.record(member, Ok(letter == b'y')),
                }
            }
            assert_eq!(replies.decided(), decided, "{letters}");
        }
    }
}
