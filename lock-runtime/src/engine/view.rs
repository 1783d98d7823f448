//! What is to be seen of a lock from outside.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::EngineFuture;
use std::future::ready;
use std::time::Duration;

/// A lock's holders and its first waiters, as one request found them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) holders: Vec<ViewedHolder>,
    /// The tokens of the first waiters, in their order.
    pub(crate) waiters: Vec<Box<str>>,
    /// The number of all waiters.
    pub(crate) waiting: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewedHolder {
    /// The token, or what identifies another client.
    pub(crate) token: Box<str>,
    pub(crate) rest: Rest,
    /// In a quorum, at how many of its members it holds the lock, and how many there are.
    pub(crate) votes: Option<(usize, usize)>,
}

/// What is left of a holder's lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rest {
    Ends(Duration),
    /// The key never expires.
    Never,
    /// The server ends it with a session, of which it does not say more.
    #[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
    Unknown,
}

/// Refuses to look at a lock, for an engine of tests.
pub(crate) fn refused<'a>() -> EngineFuture<'a, View> {
    let words = "this engine cannot be looked at";
    let error = EngineError::new(EngineErrorKind::Rejected, words);
    Box::pin(ready(Err(error)))
}
