//! Mechanisms that several engines share.

#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod claim_table;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod ending;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod line;
pub(crate) mod pace;
pub(crate) mod upkeep;
