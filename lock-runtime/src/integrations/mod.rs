//! Web frameworks: a lock error as a response.

#[cfg(feature = "actix")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;
pub(crate) mod problem;
