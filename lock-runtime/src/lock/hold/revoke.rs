//! Giving a lock up that an operator wants back.

use crate::engine::token::Token;
use crate::error::LostCause;
use crate::event::LockEvent;
use crate::limit::Limit;
use crate::lock::asks::RevokeRequest;
use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, Reuse};
use crate::trace;

impl Hold {
    /// Returns the token of the exclusive hold whose body has this one instead.
    pub(crate) fn replaces(&self) -> Option<Token> {
        self.state().replaces
    }

    /// Asks the guards to end: a body is canceled at its next await, and then the lock is released. Until
    /// then the lease is renewed: a body that does not get there still runs, and must stay the only one.
    /// Returns `false` if the body that is meant has ended, and the lock was handed on.
    pub(crate) fn give_up(&self, request: &RevokeRequest) -> bool {
        let RevokeRequest { by, reason, .. } = request;
        let state = self.state();
        if state.reuse == Reuse::Kept {
            self.end_keeping(state);
            return true;
        }
        // Readers run side by side.
        let is_one = self.limit() != Limit::UNLIMITED;
        if is_one && request.handoffs.is_some_and(|it| it < state.handoffs) {
            return false;
        }
        if !matches!(state.phase, Phase::Held | Phase::Replaced) {
            return true;
        }
        let asked = Phase::Asked(std::time::Instant::now());
        self.end_guards(state, asked, LostCause::Revoked);
        let key = self.key();
        trace::gives_up(key, by, reason);
        let event = LockEvent::Revoked { key, by, reason };
        self.context().telemetry.publish(&event);
        true
    }
}
