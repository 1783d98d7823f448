//! Where user and password come from, as the configuration says.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// User and password.
pub(crate) type Login = (String, String);

/// What a provider returns.
pub(crate) type Provided =
    Pin<Box<dyn Future<Output = Result<Login, Box<dyn Error + Send + Sync>>> + Send>>;

#[derive(Clone)]
pub(crate) enum CredentialsSource {
    Fixed(Login),
    /// Asked before each connection.
    Provider(Arc<dyn Fn() -> Provided + Send + Sync>),
}
