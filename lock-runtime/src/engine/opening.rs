//! What every engine is opened from.

use crate::config::Config;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The surroundings of an engine.
#[derive(Clone)]
pub(crate) struct Opening<'a> {
    pub(crate) config: &'a Config,
    pub(crate) timeouts: Timeouts,
    /// Where the engine runs its tasks.
    pub(crate) io: IoThread,
    /// The clock that measures leases.
    pub(crate) clock: Clock,
    /// The process whose locks the engine keeps.
    pub(crate) process: ProcessId,
    pub(crate) handler: EventHandler,
}

/// An engine, and its address without secrets.
pub(crate) type Opened = (Arc<dyn Engine>, Arc<str>);

pub(crate) type OpenFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Opened, LockError>> + Send + 'a>>;

/// Returns the error of a connection that could not be made. A rejected one is a matter of the configuration;
/// `reason` words it.
pub(crate) fn connect_error(
    server: Arc<str>,
    error: EngineError,
    reason: impl FnOnce(&str, &EngineError) -> String,
) -> LockError {
    match error.kind {
        EngineErrorKind::Rejected => LockError::InvalidConfig {
            reason: reason(&server, &error),
            source: Some(error.source),
        },
        _ => LockError::Unavailable {
            key: None,
            server,
            source: error.source,
        },
    }
}
