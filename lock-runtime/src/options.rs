//! The options of a lock, and their limits.

use crate::error::LockError;
use std::time::Duration;

/// The options of one acquire call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockOptions {
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_lost: OnLost,
    pub(crate) release: ReleaseMode,
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
pub enum ReleaseMode {
    /// It returns when the server has confirmed the release, or has failed to within the command
    /// timeout.
    #[default]
    Confirmed,
    /// It returns when the release has been sent. The answer is waited for in the background, and
    /// by [`shutdown`](crate::shutdown).
    Background,
}

pub(crate) fn validate_key(key: &str) -> Result<(), LockError> {
    const MAX_KEY_LEN: usize = 512 * 1024 * 1024 - 1024;

    let reason = if key.is_empty() {
        "it is empty; check what it is made of"
    } else if key.len() > MAX_KEY_LEN {
        "it is longer than the 512 MB that Redis allows"
    } else if key.starts_with(':') {
        "keys that begin with `:` are reserved for the bookkeeping of locks"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidKey {
        key: key.chars().take(64).collect::<String>().into(),
        reason,
    })
}

pub(crate) fn validate_duration(option: &'static str, duration: Duration) -> Result<(), LockError> {
    const MIN_DURATION: Duration = Duration::from_millis(10);
    const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

    let reason = if duration < MIN_DURATION {
        "it is shorter than 10 ms, in which nothing can be done in time"
    } else if duration > MAX_DURATION {
        "it is longer than a hundred years"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidOption { option, reason })
}
