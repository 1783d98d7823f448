//! Majorities, and the error when no majority agreed.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::quorum::member::Member;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Returns the least number of members that is a majority.
pub(crate) fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// The source of an error: each member's reply.
#[derive(Debug)]
pub(crate) struct NoMajority {
    replies: Vec<(Box<str>, MemberReply)>,
}

#[derive(Debug)]
pub(crate) enum MemberReply {
    Text(&'static str),
    Failed(EngineError),
}

impl NoMajority {
    /// Returns an error of the kind that enough members report to prevent a majority.
    pub(crate) fn error(
        members: &[Arc<dyn Member>],
        replies: impl Iterator<Item = MemberReply>,
    ) -> EngineError {
        let addresses = members.iter().map(|member| member.address().into());
        let replies: Vec<(Box<str>, MemberReply)> = addresses.zip(replies).collect();
        let blocking = replies.len() + 1 - majority(replies.len());
        let failed = |kind| {
            let failed = |replies: &MemberReply| matches!(replies, MemberReply::Failed(error) if error.kind == kind);
            replies
                .iter()
                .filter(|(_, replies)| failed(replies))
                .count()
                >= blocking
        };
        let kind = [EngineErrorKind::Rejected, EngineErrorKind::NotConnected]
            .into_iter()
            .find(|&kind| failed(kind));
        EngineError::new(
            kind.unwrap_or(EngineErrorKind::NotReady),
            NoMajority { replies },
        )
    }
}

impl fmt::Display for NoMajority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = majority(self.replies.len());
        write!(f, "no {needed} of {} members agreed", self.replies.len())?;
        for (n, (address, replies)) in self.replies.iter().enumerate() {
            let separator = if n == 0 { ":" } else { ";" };
            write!(f, "{separator} `{address}`: {replies}")?;
        }
        Ok(())
    }
}

impl Error for NoMajority {}

impl fmt::Display for MemberReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberReply::Text(words) => f.write_str(words),
            MemberReply::Failed(error) => {
                let words = match error.kind {
                    EngineErrorKind::NotConnected => "not reached",
                    EngineErrorKind::Indeterminate => "no reply",
                    EngineErrorKind::NotReplicated => "not acknowledged",
                    EngineErrorKind::NotReady => "not ready",
                    EngineErrorKind::Rejected | EngineErrorKind::InvalidKey => "refused",
                };
                write!(f, "{words} ({error})")
            }
        }
    }
}
