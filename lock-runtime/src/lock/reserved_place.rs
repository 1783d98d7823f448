//! The place in a server's line that a failed try has left to its caller, which waits with it.

use crate::engine::request::Claim;
use crate::lock::release::Releaser;
use std::sync::Arc;

/// Dropping it leaves the line, in the background.
pub(crate) struct ReservedPlace {
    claim: Option<Claim>,
    releaser: Arc<Releaser>,
}

impl ReservedPlace {
    pub(crate) fn new(claim: Claim, releaser: Arc<Releaser>) -> ReservedPlace {
        ReservedPlace {
            claim: Some(claim),
            releaser,
        }
    }

    /// Returns the claim, which is going to wait.
    pub(crate) fn take(mut self) -> Option<Claim> {
        self.claim.take()
    }
}

impl Drop for ReservedPlace {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.releaser.cancel_in_background(claim, false);
        }
    }
}
