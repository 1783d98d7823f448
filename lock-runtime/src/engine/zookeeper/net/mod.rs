//! One session with a ZooKeeper ensemble: the protocol, connections, and how long the session is proven to live.

pub(crate) mod connection;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod in_flight;
pub(crate) mod jute;
pub(crate) mod messages;
pub(crate) mod proof;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod stream;
