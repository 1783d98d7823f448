//! Mechanisms that several engines share.

#[cfg(any(feature = "store", feature = "zookeeper"))]
pub(crate) mod batches;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod claim_table;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod ending;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod line;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) mod message;
pub(crate) mod pace;
pub(crate) mod upkeep;
