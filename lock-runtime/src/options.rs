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

/// The reaction to the loss of a lease while the body runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is canceled at its next await point, and the call fails with
    /// [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Cancel,
    /// The body continues. It must check its [`LockGuard`](crate::LockGuard) before irreversible steps.
    Continue,
}

/// How a call ends the lock after its body has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseMode {
    /// The call returns once the server has confirmed the release, or the command timeout has passed.
    #[default]
    Confirmed,
    /// The call returns once the release has been sent. The library awaits the reply in the background;
    /// [`shutdown`](crate::shutdown) waits for it.
    Background,
}

pub(crate) fn validate_key(key: &str) -> Result<(), LockError> {
    const MAX_KEY_LEN: usize = 512 * 1024 * 1024 - 1024;

    let reason = if key.is_empty() {
        "it is empty; check the values that it is built from"
    } else if key.len() > MAX_KEY_LEN {
        "it is longer than the 512 MB that Redis allows; shorten it"
    } else if key.starts_with(':') {
        "keys that begin with `:` are reserved; choose another first character"
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
        "it is shorter than 10 ms; raise it"
    } else if duration > MAX_DURATION {
        "it is longer than 100 years; lower it"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidOption { option, reason })
}
