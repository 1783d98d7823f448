//! What is reported of a call: that it waits, how it ends, how the guard ends that it gets, and that the lock
//! is kept then.

pub(crate) mod call;
pub(crate) mod guard;
pub(crate) mod guards;
pub(crate) mod kept;
pub(crate) mod wait;
