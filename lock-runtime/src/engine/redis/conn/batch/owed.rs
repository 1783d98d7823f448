//! The replies that a server owes. They come in the order of the requests.

use redis::Value;
use std::collections::VecDeque;
use std::mem::take;

#[derive(Default)]
pub(super) struct OwedReplies {
    /// Written requests without a reply, in the order of writing.
    sent: VecDeque<usize>,
    /// What the next replies are for.
    expected: VecDeque<Expected>,
    /// Requests with their replies, for which the reply about replicas is still to come.
    unacknowledged: Vec<(usize, Value)>,
}

/// What one reply is for.
enum Expected {
    /// No request: the reply to `ASKING`.
    Nothing,
    One {
        /// The reply about replicas follows later.
        await_replicas: bool,
    },
    /// That number of releases, with a digit for each.
    Releases(usize),
    /// All requests in `unacknowledged`.
    Replicas,
}

/// The server has sent something that is no reply to a request.
#[derive(Debug)]
pub(crate) struct UnexpectedReply;

impl OwedReplies {
    pub(super) fn is_empty(&self) -> bool {
        self.expected.is_empty()
    }

    /// `ASKING` has been written.
    pub(super) fn push_asking(&mut self) {
        self.expected.push_back(Expected::Nothing);
    }

    /// A request has been written.
    pub(super) fn push(&mut self, at: usize, await_replicas: bool) {
        self.sent.push_back(at);
        self.expected.push_back(Expected::One { await_replicas });
    }

    /// A script with several releases has been written.
    pub(super) fn push_releases(&mut self, releases: &[usize]) {
        self.sent.extend(releases);
        self.expected.push_back(Expected::Releases(releases.len()));
    }

    /// `WAIT` has been written.
    pub(super) fn push_replicas(&mut self) {
        self.expected.push_back(Expected::Replicas);
    }

    /// Takes the next reply. Calls `decide` with each request that it decides.
    pub(super) fn take(
        &mut self,
        reply: Value,
        mut decide: impl FnMut(usize, Value),
    ) -> Result<(), UnexpectedReply> {
        match self.expected.pop_front().ok_or(UnexpectedReply)? {
            Expected::Nothing => {}
            Expected::One { await_replicas } => {
                let at = self.sent.pop_front().ok_or(UnexpectedReply)?;
                match await_replicas {
                    true => self.unacknowledged.push((at, reply)),
                    false => decide(at, reply),
                }
            }
            Expected::Releases(count) => self.take_digits(count, &reply, decide)?,
            Expected::Replicas => {
                for (at, own) in take(&mut self.unacknowledged) {
                    match own {
                        Value::ServerError(_) => decide(at, own),
                        own => decide(at, Value::Array(vec![own, reply.clone()])),
                    }
                }
            }
        }
        Ok(())
    }

    fn take_digits(
        &mut self,
        count: usize,
        reply: &Value,
        mut decide: impl FnMut(usize, Value),
    ) -> Result<(), UnexpectedReply> {
        let digits = match reply {
            Value::BulkString(digits) if digits.len() == count => Some(digits),
            Value::ServerError(_) => None,
            _ => return Err(UnexpectedReply),
        };
        for nth in 0..count {
            let at = self.sent.pop_front().ok_or(UnexpectedReply)?;
            match digits {
                Some(digits) => decide(at, Value::Int(i64::from(digits[nth] == b'1'))),
                None => decide(at, reply.clone()),
            }
        }
        Ok(())
    }
}
