//! What the library tells `tracing`. Without the feature, nothing, at no cost.
//!
//! Each hold has a span `distributed_lock`, in which its body runs: `template` (the key as written
//! in the source: few values), `key`, and in milliseconds `waited` and `held`.
//!
//! A subscriber is code of the user's. It is called under no lock of ours, and a panic of its does not
//! leave this module.

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
