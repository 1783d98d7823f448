//! The errors of an engine.

use crate::engine::timeouts::NO_REPLY;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The reason why a request to an engine failed.
#[derive(Clone, Debug)]
pub(crate) struct EngineError {
    pub(crate) kind: EngineErrorKind,
    pub(crate) source: Arc<dyn Error + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineErrorKind {
    /// There is no connection; nothing was sent.
    NotConnected,
    /// The request was sent and no reply came: it may have been carried out.
    Indeterminate,
    /// The request was carried out, and too few replicas acknowledged it.
    NotReplicated,
    /// The server declined for now, for example while it loads its data.
    NotReady,
    /// The server declined for good, for example because a permission is missing.
    Rejected,
    /// The server cannot store the name of the lock.
    InvalidKey,
}

impl EngineError {
    pub(crate) fn new(
        kind: EngineErrorKind,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        EngineError {
            kind,
            source: Arc::from(source.into()),
        }
    }

    /// Returns the error of a request that has no reply by its deadline.
    pub(crate) fn no_reply() -> Self {
        EngineError::new(EngineErrorKind::Indeterminate, NO_REPLY)
    }

    /// Returns the error of several servers, none of which could be connected to. It is for good if each is.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn of_servers(mut errors: Vec<(String, EngineError)>) -> Self {
        if errors.len() == 1
            && let Some((_, error)) = errors.pop()
        {
            return error;
        }
        let is_rejected = |(_, error): &(_, EngineError)| error.kind == EngineErrorKind::Rejected;
        let kind = match errors.iter().all(is_rejected) {
            true => EngineErrorKind::Rejected,
            false => EngineErrorKind::NotConnected,
        };
        let each = errors
            .iter()
            .map(|(server, error)| format!("`{server}`: {error}"));
        EngineError::new(kind, each.collect::<Vec<_>>().join("; "))
    }

    /// Returns `true` if the same request may succeed a moment later.
    pub(crate) fn is_retryable(&self) -> bool {
        !matches!(
            self.kind,
            EngineErrorKind::Rejected | EngineErrorKind::InvalidKey
        )
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
