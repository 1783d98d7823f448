//! What is told of a call: that it waits, how it ends, and how the guard ends that it gets.

pub(crate) mod call;
pub(crate) mod guard;
pub(crate) mod guards;
pub(crate) mod wait;
