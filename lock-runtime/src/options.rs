//! What may be agreed for a lock.

use std::time::Duration;

/// What a guard asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_lost: OnLost,
    pub(crate) release: Release,
    pub(crate) replicas: u32,
}

/// What happens to a body whose lease is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLost {
    /// It is cancelled at its next await point, and the caller gets [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Cancel,
    /// It goes on, and asks its [`LockGuard`](crate::LockGuard) before what can't be undone.
    Continue,
}

/// Whether a call waits for its lock to be released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// It returns when the server has confirmed the release, or has failed to within the command
    /// timeout.
    #[default]
    Confirmed,
    /// It returns when the release has been sent. The answer is waited for in the background, and
    /// by [`shutdown`](crate::shutdown).
    Background,
}
