//! One session with an ensemble for each length of time in use: its connections one after the other, and how
//! long it is proven to live.

pub(crate) mod batch;
pub(crate) mod connect;
pub(crate) mod proof;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod session_limits;
pub(crate) mod sessions;
pub(crate) mod stream;
pub(crate) mod tries;
