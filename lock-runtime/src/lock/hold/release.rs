//! The end of a hold.

use crate::engine::request::Claim;
use crate::error::{LockError, LostCause};
use crate::lock::asks::Stop;
use crate::lock::context::Effort;
use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, State};
use crate::util::sync::MutexGuard;
use crate::util::time::deadline_in;
use std::time::Duration;

/// What the release of a hold has to do.
struct Release {
    claim: Claim,
    /// The phase of the hold until now.
    phase: Phase,
    /// The time for which the lock must stay held.
    rest_of_min_hold: Option<Duration>,
}

impl Hold {
    /// Releases the lock and returns the result. If this fails or is dropped, the caller must call
    /// [`release_in_background`](Self::release_in_background).
    pub(crate) async fn release(&self) -> Result<(), LockError> {
        let Release {
            claim,
            phase,
            rest_of_min_hold,
        } = self.begin_release(self.checked_state());
        if let Some(rest) = rest_of_min_hold {
            let ended = Box::pin(self.retain(claim, rest)).await;
            return match phase.loss() {
                Some((cause, since)) => Err(self.lost_error(cause, since)),
                None => ended,
            };
        }
        let deadline = deadline_in(self.context().command_timeout);
        let effort = Effort::InCall { deadline };
        let was_held = phase.is_held();
        let released = self.shared.releaser.release(&claim, effort, was_held).await;
        match (released, phase.loss()) {
            (_, Some((cause, since))) => Err(self.lost_error(cause, since)),
            (Ok(true), _) => Ok(()),
            (Ok(false), _) => Err(self.not_owner_error()),
            (Err(error), _) => Err(self.context().unavailable(&self.name, error)),
        }
    }

    /// Releases the lock in the background. As for [`release`](Self::release), this process no longer counts
    /// as the holder: after a handoff that no waiter took, or [`vacate`](Self::vacate).
    pub(crate) fn release_in_background(&self) {
        let release = self.begin_release(self.state());
        let (releaser, was_held) = (&self.shared.releaser, release.phase.is_held());
        match release.rest_of_min_hold {
            Some(rest) => self.shared.retain_in_background(release.claim, rest),
            None => releaser.release_in_background(release.claim, was_held),
        }
    }

    /// Keeps the lock for the rest of its `min_hold`.
    async fn retain(&self, claim: Claim, rest: Duration) -> Result<(), LockError> {
        let deadline = deadline_in(self.context().command_timeout);
        let effort = Effort::InCall { deadline };
        match self.shared.retain(&claim, rest, effort).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.not_owner_error()),
            Err(error) => Err(self.context().unavailable(&self.name, error)),
        }
    }

    /// Ends the records of the guards that have ended. It may call a subscriber.
    pub(crate) fn end_records(&self) {
        let mut state = self.state();
        let ended = std::mem::take(&mut state.records);
        drop(state);
        drop(ended);
    }

    /// Stops renewing.
    fn begin_release(&self, mut state: MutexGuard<'_, State>) -> Release {
        self.unschedule(&mut state);
        let phase = std::mem::replace(&mut state.phase, Phase::Ended);
        let claim = self.claim_in(&state);
        let rest = state.rest_of_min_hold();
        let _ended = (
            std::mem::take(&mut state.records),
            std::mem::take(&mut state.offers),
        );
        // Before a record's span ends, which may call a subscriber.
        drop(state);
        if let Phase::Asked(_) = phase {
            let (context, token) = (self.context().clone(), self.token);
            let answer = async move {
                let _ = context.say_stopped(vec![token], Stop::Ended).await;
            };
            self.context().tasks.spawn_wait(answer);
        }
        Release {
            claim,
            phase,
            // After a failed attempt the phase is no longer `Held`, and the rest is still to be waited for. A
            // shutdown leaves the lease as it is.
            rest_of_min_hold: rest.filter(|_| {
                matches!(
                    phase,
                    Phase::Held
                        | Phase::Replaced
                        | Phase::Ended
                        | Phase::Lost(LostCause::ShutDown, _)
                )
            }),
        }
    }
}
