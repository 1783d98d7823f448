//! Web frameworks: lock errors as responses.

#[cfg(feature = "actix")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;
#[cfg(any(feature = "actix", feature = "axum"))]
pub(crate) mod http_problem;
#[cfg(feature = "tonic")]
pub(crate) mod tonic;
