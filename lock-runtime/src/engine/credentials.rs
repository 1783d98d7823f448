//! User and password for the next connection: fixed ones, or those that a provider has now.

use crate::config::Config;
use crate::credentials::{CredentialsSource, Login};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::util::io_thread::IoThread;
use std::error::Error;
use std::fmt;
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Credentials(Option<CredentialsSource>);

impl Credentials {
    /// Returns those of the configuration, or else those that the URL names.
    pub(crate) fn of(config: &Config, in_url: Option<Login>) -> Credentials {
        let in_url = in_url.map(CredentialsSource::Fixed);
        Credentials(config.credentials.clone().or(in_url))
    }

    /// Returns these, which never change.
    #[cfg(feature = "redis")]
    pub(crate) fn fixed(login: Option<Login>) -> Credentials {
        Credentials(login.map(CredentialsSource::Fixed))
    }

    /// Returns `true` if connections log in.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn exist(&self) -> bool {
        self.0.is_some()
    }

    /// Returns user and password for a connection that is made now, or `None` if it needs none. A provider
    /// must reply by that instant.
    pub(crate) async fn get(
        &self,
        io: IoThread,
        by: Instant,
    ) -> Result<Option<Login>, CredentialsError> {
        let provider = match &self.0 {
            None => return Ok(None),
            Some(CredentialsSource::Fixed(login)) => return Ok(Some(login.clone())),
            Some(CredentialsSource::Provider(provider)) => provider.clone(),
        };
        let calls = provider.calls.clone();
        let asked = io.timeout_at(by, async move {
            let call = calls.acquire_owned().await;
            let ask = move || async move {
                let _until_it_ends = call;
                (provider.ask)().await
            };
            io.run_aside(ask).await
        });
        match asked.await {
            Ok(Some(Ok(login))) => Ok(Some(login)),
            Ok(Some(Err(error))) => Err(CredentialsError::Failed(error)),
            Ok(None) => Err(CredentialsError::Panicked),
            Err(_) => Err(CredentialsError::Late),
        }
    }
}

/// Why a provider of credentials gave none.
#[derive(Debug)]
pub(crate) enum CredentialsError {
    Failed(Box<dyn Error + Send + Sync>),
    Panicked,
    Late,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialsError::Failed(error) => {
                write!(f, "the provider of `credentials_from` failed: {error}")
            }
            CredentialsError::Panicked => f.write_str("the provider of `credentials_from` panicked"),
            CredentialsError::Late => f.write_str(
                "the provider of `credentials_from` did not reply in time; let it keep what it fetches, or raise \
                 `connect_timeout`",
            ),
        }
    }
}

impl Error for CredentialsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CredentialsError::Failed(error) => Some(&**error),
            _ => None,
        }
    }
}

/// There is no connection, and the next try may make one.
impl From<CredentialsError> for EngineError {
    fn from(error: CredentialsError) -> EngineError {
        EngineError::new(EngineErrorKind::NotConnected, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::time::deadline_in;
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    /// Each try to connect has credentials of its own, and a manager may try for ever.
    #[tokio::test]
    async fn provider_that_blocks_its_thread_costs_few_threads() {
        let (end, blocked) = channel::<()>();
        let (blocked, asked) = (Arc::new(Mutex::new(blocked)), Arc::new(AtomicUsize::new(0)));
        let asked_for = asked.clone();
        let config = Config::new("memory://").credentials_from(move || {
            asked_for.fetch_add(1, Ordering::SeqCst);
            let receiver: &Mutex<Receiver<()>> = &blocked;
            let _ = receiver.lock().map(|it| it.recv());
            async { Ok(("user".to_owned(), "password".to_owned())) }
        });
        let io = IoThread::start().unwrap();
        for _ in 0..20 {
            let credentials = Credentials::of(&config, None);
            let login = credentials.get(io, deadline_in(Duration::from_millis(20)));
            assert!(matches!(login.await, Err(CredentialsError::Late)));
        }
        assert!(asked.load(Ordering::SeqCst) <= 8);
        drop(end);
    }
}
