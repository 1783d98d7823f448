//! Giving a lock up that somebody wants back.

use crate::error::LostCause;
use crate::event::LockEvent;
use crate::limit::Limit;
use crate::lock::hold::{Hold, Phase, State};
use crate::trace;

impl Hold {
    /// Loses the lock: the body is canceled at its next await, and then the lock is released. Does nothing if the hold was
    /// handed on more than `handoffs` times, to another body than the one that is meant.
    pub(super) fn give_up(&self, handoffs: Option<u32>, by: &str, reason: &str) {
        // A reader that joins does not end the others.
        let handoffs = handoffs.filter(|_| self.limit() != Limit::UNLIMITED);
        let is_meant = |state: &State| {
            state.phase == Phase::Held && handoffs.is_none_or(|at| state.handoffs <= at)
        };
        if !is_meant(&self.state()) {
            return;
        }
        let key = self.key();
        trace::gives_up(key, by, reason);
        let event = LockEvent::Revoked { key, by, reason };
        self.context().telemetry.tell(&event);
        let state = self.state();
        if is_meant(&state) {
            self.mark_lost(state, LostCause::Revoked);
        }
    }
}
