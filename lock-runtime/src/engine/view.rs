//! What is to be seen of a lock from outside.

use crate::lock_info::LeaseInfo;

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
    pub(crate) lease: LeaseInfo,
    /// In a quorum, at how many of its members it holds the lock, and how many there are.
    pub(crate) votes: Option<(usize, usize)>,
}
