//! The requests of many callers on their way to the server, in rounds of statements.

pub(crate) mod cleaning;
pub(crate) mod driver;
pub(crate) mod gather;
pub(crate) mod pending_tokens;
pub(crate) mod queue;
pub(crate) mod recipient;
pub(crate) mod request;
pub(crate) mod round;
pub(crate) mod rounds;
pub(crate) mod send;
pub(crate) mod sender;
