//! The errors of an engine.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why an engine gave no answer.
#[derive(Clone, Debug)]
pub(crate) struct EngineError {
    pub(crate) fault: Fault,
    pub(crate) source: Arc<dyn Error + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no connection: nothing was sent.
    Down,
    /// It was sent, and no answer came: it may have been carried out.
    Unanswered,
    /// It was carried out, and too few replicas know of it.
    Unacknowledged,
    /// The server declined for now, as while it loads its data.
    Hindered,
    /// The server declined for good, as for want of permission.
    Refused,
}

impl EngineError {
    pub(crate) fn new(fault: Fault, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        EngineError {
            fault,
            source: Arc::from(source.into()),
        }
    }

    /// Whether the same request may succeed a moment later.
    pub(crate) fn is_transient(&self) -> bool {
        self.fault != Fault::Refused
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}
