//! An exclusive hold that a read hold replaces.

use crate::engine::lease::Lease;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::error::{LockError, LostCause};
use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, Reuse};
use crate::options::LockOptions;
use crate::util::time;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Hold {
    /// Ends the renewals, since a read hold is about to replace this one. Returns its claim. Fails if the
    /// lease is lost, or if another guard owns the hold too: its body must remain exclusive.
    pub(crate) fn begin_replacement(&self) -> Result<Claim, LockError> {
        let mut state = self.checked_state();
        if let Some((cause, since)) = state.phase.loss() {
            return Err(self.lost_error(cause, since));
        }
        if self.guards.load(Ordering::Acquire) > 1 {
            return Err(LockError::Unsupported {
                operation: "downgrade",
                reason: "a nested call with `reentrant = true` shares this hold; only its last guard can \
                         be downgraded",
            });
        }
        state.phase = Phase::Replaced;
        state.renew_at = None;
        Ok(self.claim_in(&state))
    }

    /// Returns the read hold with that token and lease, which has what is left of this guard's time. Fails if
    /// the lease of this hold ended before the server replied.
    pub(crate) fn replace(&self, token: Token, lease: Lease) -> Result<Arc<Hold>, LockError> {
        if let Some(loss) = self.check_lost() {
            return Err(loss);
        }
        let (options, lease, hard_limit, retain_until, fencing_token, reuse, guard_since) = {
            let state = self.state();
            // That of a request which took long to arrive ends before this one.
            let lease = state.lease.or_later(lease, self.now());
            let options = LockOptions {
                renew: state.renew,
                replicas: state.replicas,
                ..LockOptions::new(token.limit(), state.lease.ttl())
            };
            (
                options,
                lease,
                state.hard_limit.clone(),
                state.retain_until,
                state.fencing_token,
                state.reuse,
                state.guard_since,
            )
        };
        let claim = Claim {
            token,
            ..self.claim()
        };
        let next = Hold::begin(self.shared.clone(), claim, options, lease)
            .map_err(|_| self.lost_error(LostCause::Expired, std::time::Instant::now()))?;
        let now = self.now();
        let mut state = next.state();
        state.hard_limit = hard_limit;
        state.retain_until = retain_until;
        state.fencing_token = fencing_token;
        if reuse == Reuse::None {
            // A transaction may still run under the exclusive lock: who comes next asks the server.
            state.reuse = reuse;
        }
        state.guard_since = guard_since;
        state.replaces = Some(self.token);
        next.reschedule(&mut state, (time::now(), now));
        drop(state);
        Ok(next)
    }

    /// Ends this hold without a request: a read hold has replaced it, or its caller releases the lock.
    pub(crate) fn end_without_request(&self) {
        let mut state = self.state();
        self.unschedule(&mut state);
        state.phase = Phase::Ended;
        drop(state);
        self.vacate();
    }

    /// Ends this hold, and another claim that may have replaced it, in the background.
    pub(crate) fn end_both_in_background(&self, other: Claim) {
        let rest = self.state().rest_of_min_hold();
        self.vacate();
        self.release_in_background();
        match rest {
            Some(rest) => self.shared.retain_in_background(other, rest),
            None => self.shared.releaser.release_in_background(other, false),
        }
    }
}
