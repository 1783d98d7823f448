//! Metrics, through the crate of that name. Without the feature, these functions are empty and cost nothing.

pub(crate) mod ages;
#[cfg(not(feature = "metrics"))]
pub(crate) mod disabled;
#[cfg(feature = "metrics")]
pub(crate) mod enabled;

#[cfg(feature = "metrics")]
pub(crate) use crate::metrics::enabled::*;

#[cfg(not(feature = "metrics"))]
pub(crate) use crate::metrics::disabled::*;
