//! Pauses between the attempts of one request.

use crate::engine::error::EngineError;
use crate::util::backoff::Backoff;
use std::time::Duration;

/// The pauses after failures: those that may pass are retried sooner than rejections.
pub(crate) struct Retry {
    passing: Backoff,
    refused: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        let millis = Duration::from_millis;
        Retry {
            passing: Backoff::new(millis(5), millis(200)),
            refused: Backoff::new(millis(50), millis(1000)),
        }
    }
}

impl Retry {
    pub(crate) fn pause_after(&mut self, error: &EngineError) -> Duration {
        match error.is_retryable() {
            true => self.passing.pause(),
            false => self.refused.pause(),
        }
    }
}
