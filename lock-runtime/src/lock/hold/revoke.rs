//! Giving a lock up that somebody wants back.

use crate::error::LostCause;
use crate::event::LockEvent;
use crate::lock::asks::Wanted;
use crate::lock::hold::{Hold, Phase};
use crate::trace;
use crate::util::time;

impl Hold {
    /// Asks the guards to end: a body is canceled at its next await, and then the lock is released. Until then the lease is
    /// renewed: a body that does not get there still runs, and must stay the only one. Returns `false` if the present guard
    /// has not had the lock for so long: then the hold was passed on to another body than the one that is meant.
    pub(super) fn give_up(&self, wanted: &Wanted) -> bool {
        let Wanted {
            held_for,
            by,
            reason,
            ..
        } = wanted;
        let state = self.state();
        if state.is_kept {
            self.end_keeping(state);
            return true;
        }
        if time::elapsed_since(state.guard_since) < *held_for {
            return false;
        }
        if state.phase != Phase::Held {
            return true;
        }
        let asked = Phase::Asked(std::time::Instant::now());
        self.end_guards(state, asked, LostCause::Revoked);
        let key = self.key();
        trace::gives_up(key, by, reason);
        let event = LockEvent::Revoked { key, by, reason };
        self.context().telemetry.tell(&event);
        true
    }
}
