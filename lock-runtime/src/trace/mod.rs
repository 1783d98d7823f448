//! Reports to `tracing`. Without the feature, these functions are empty and cost nothing.
//!
//! Each hold has a span `distributed_lock`, in which its body runs, with the fields `template` (the key as
//! written in the source, which has few values), `key`, `label`, and in milliseconds `waited` and `held`. A
//! call that waits for its turn has a span `distributed_lock.acquire` meanwhile.
//!
//! A subscriber is the user's code. It is called under no mutex of the library, and its panics do not leave
//! this module.

#[cfg(not(feature = "tracing"))]
pub(crate) mod disabled;
#[cfg(feature = "tracing")]
pub(crate) mod enabled;
#[cfg(any(feature = "tracing", test))]
pub(crate) mod limit;

#[cfg(feature = "tracing")]
pub(crate) use crate::trace::enabled::*;

#[cfg(not(feature = "tracing"))]
pub(crate) use crate::trace::disabled::*;
