//! The end of a hold.

use crate::engine::request::Claim;
use crate::error::LockError;
use crate::lock::context::Effort;
use crate::lock::hold::{Hold, Phase};
use crate::util::time::deadline_in;
use std::time::Duration;

/// What the release of a hold has to do.
struct Release {
    claim: Claim,
    /// `true` if the lock was held until now.
    was_held: bool,
    /// The time for which the lock must stay held.
    rest_of_min_hold: Option<Duration>,
}

impl Hold {
    /// Releases the lock and returns the result. If this fails or is dropped, the caller must call
    /// [`release_in_background`](Self::release_in_background).
    pub(crate) async fn release(&self) -> Result<(), LockError> {
        let loss = self.check_lost();
        let Some(release) = self.begin_release() else {
            return loss.map_or(Ok(()), Err);
        };
        let claim = release.claim;
        if let Some(rest) = release.rest_of_min_hold {
            return Box::pin(self.end_after(claim, rest)).await;
        }
        let deadline = deadline_in(self.context().command_timeout);
        let effort = Effort::InCall { deadline };
        let was_held = loss.is_none();
        match self.shared.releaser.release(&claim, effort, was_held).await {
            Ok(was_owner) => {
                self.state().phase = Phase::Released;
                match loss {
                    Some(loss) => Err(loss),
                    None if was_owner => Ok(()),
                    None => Err(self.not_owner_error()),
                }
            }
            Err(error) => Err(self.context().unavailable(&self.name, error)),
        }
    }

    /// Releases the lock in the background, unless it is released already.
    pub(crate) fn release_in_background(&self) {
        if let Some(release) = self.begin_release() {
            let releaser = &self.shared.releaser;
            match release.rest_of_min_hold {
                Some(rest) => releaser.end_in_background(release.claim, rest),
                None => releaser.release_in_background(release.claim, release.was_held),
            }
        }
    }

    /// Lets the lock end after the rest of its `min_hold`.
    async fn end_after(&self, claim: Claim, rest: Duration) -> Result<(), LockError> {
        let deadline = deadline_in(self.context().command_timeout);
        let effort = Effort::InCall { deadline };
        match self.shared.releaser.end_after(&claim, rest, effort).await {
            Ok(true) => {
                self.state().phase = Phase::Released;
                Ok(())
            }
            Ok(false) => {
                self.state().phase = Phase::Released;
                Err(self.not_owner_error())
            }
            Err(error) => Err(self.context().unavailable(&self.name, error)),
        }
    }

    /// Stops renewing. Returns `None` if the server stores nothing of the hold any more.
    fn begin_release(&self) -> Option<Release> {
        let mut state = self.state();
        let before = state.phase;
        let rest = state.rest_of_min_hold();
        self.unschedule(&mut state);
        if before == Phase::Released {
            return None;
        }
        state.phase = Phase::Releasing;
        let claim = self.claim_in(&state);
        let _span = std::mem::take(&mut state.span);
        drop(state);
        self.shared.observer.on_vacated(&self.name, self.token);
        let was_held = before == Phase::Held;
        Some(Release {
            claim,
            was_held,
            // After a failed attempt the phase is no longer `Held`, and the rest is still to be waited for.
            rest_of_min_hold: rest.filter(|_| matches!(before, Phase::Held | Phase::Releasing)),
        })
    }
}
