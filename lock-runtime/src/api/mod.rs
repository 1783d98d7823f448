//! The public API.

pub(crate) mod blocking;
pub(crate) mod from_lock_error;
pub(crate) mod global;
pub(crate) mod guard;
pub(crate) mod guarded;
pub(crate) mod list;
pub(crate) mod lock;
pub mod macro_support;
pub(crate) mod manager;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
pub(crate) mod revoke;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "testing")]
pub(crate) mod thread_default;
