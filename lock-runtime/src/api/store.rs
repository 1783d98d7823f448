//! Locks on a server that you bring: see [`Store`], and the [guide](crate::guide::own_server).

pub use crate::own_store::{Bell, Bells, Loaded, Store, StoreError, StoreFuture, Swapped, Version};
