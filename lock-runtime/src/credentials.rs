//! Where user and password come from, as the configuration says.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// User and password.
pub(crate) type Login = (String, String);

/// What a provider returns.
pub(crate) type Provided =
    Pin<Box<dyn Future<Output = Result<Login, Box<dyn Error + Send + Sync>>> + Send>>;

#[derive(Clone)]
pub(crate) enum CredentialsSource {
    Fixed(Login),
    /// Asked before each connection.
    Provider(Arc<Provider>),
}

/// A provider, and how many of its calls may begin, however many connections and managers ask it: each that
/// blocks its thread for good costs one.
pub(crate) struct Provider {
    pub(crate) ask: Box<dyn Fn() -> Provided + Send + Sync>,
    pub(crate) calls: Arc<Semaphore>,
}

impl Provider {
    pub(crate) fn new(ask: Box<dyn Fn() -> Provided + Send + Sync>) -> Provider {
        const MAX_CALLS: usize = 8;
        Provider {
            ask,
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
        }
    }
}
