//! Web frameworks: lock errors as responses.

#[cfg(feature = "actix")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;
pub(crate) mod http_problem;
