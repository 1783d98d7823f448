//! One held lock, from the server's grant until the last guard has ended. Within the process it may be handed
//! from guard to guard, and a read hold may have several guards at once.

mod fencing;
mod guards;
mod offers;
mod release;
mod renewal;
mod replacement;
mod resume;
mod retain;
mod revoke;
mod state;

use crate::engine::lease::Lease;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::error::{LockError, LostCause};
use crate::limit::Limit;
use crate::lock::context::Context;
use crate::lock::hold::state::{Phase, Reuse, State};
use crate::lock::lease::HeldLease;
use crate::lock::record::guards::GuardRecords;
use crate::lock::shared::Shared;
use crate::options::LockOptions;
use crate::trace;
use crate::util::clock::Timestamp;
use crate::util::panics::contain;
use crate::util::sync::{AtomicU32, Mutex, MutexGuard};
use crate::util::time;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::sync::Notify;

/// The parts of a manager, as its holds know them.
pub(crate) type Parts = Shared<dyn HoldTable>;

/// The table of what a process has. Call it when no mutex is locked.
pub(crate) trait HoldTable: Send + Sync {
    /// Adds a hold. Returns `true` if another process has recalled the lock already.
    fn add(&self, hold: &Arc<Hold>) -> bool;

    /// Adds a lock without a guard, whose `min_hold` goes on. Returns what is notified if that is to end now.
    fn retain(&self, claim: &Claim) -> Arc<Notify>;

    fn end(&self, name: &Arc<str>, token: Token, end: End);

    /// Gives the lock back if it is kept.
    fn end_keeping(&self, name: &Arc<str>, token: Token);
}

/// How a hold ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// Its lease is lost, and the body may still run.
    Lost,
    Over,
}

pub(crate) struct Hold {
    pub(crate) name: Arc<str>,
    pub(crate) lost: Notify,
    shared: Arc<Parts>,
    token: Token,
    /// The hold's place in the watchdog's schedule.
    place: AtomicUsize,
    /// The guards that own the hold: one, or several readers; none while it ends.
    guards: AtomicU32,
    state: Mutex<State>,
}

impl Hold {
    /// Creates the hold of a lock that the server has just granted for `lease`, with its first guard. Returns
    /// the claim if the lease has ended, or a shutdown has begun.
    pub(crate) fn granted(
        shared: Arc<Parts>,
        claim: Claim,
        options: LockOptions,
        lease: Lease,
    ) -> Result<Arc<Hold>, Claim> {
        let hold = Hold::begin(shared, claim, options, lease)?;
        // Only now: either this sees the shutdown, or the shutdown waits for the hold.
        if !hold.context().is_closed() {
            return Ok(hold);
        }
        let claim = hold.claim();
        hold.end_without_request();
        Err(claim)
    }

    fn begin(
        shared: Arc<Parts>,
        claim: Claim,
        options: LockOptions,
        lease: Lease,
    ) -> Result<Arc<Hold>, Claim> {
        let now = shared.context.clock.now();
        if lease.remaining(now).is_zero() {
            return Err(claim);
        }
        let Claim { name, token, .. } = claim;
        let times = (time::now(), now);
        let mut state = State {
            phase: Phase::Held,
            lease: HeldLease::new(lease, options.ttl, now),
            renew: options.renew,
            replicas: options.replicas,
            hard_limit: None,
            renew_at: None,
            scheduled_at: None,
            handoffs: 0,
            held_since: times.0,
            guard_since: times.0,
            retain_until: None,
            fencing_token: None,
            reuse: Reuse::HandOff,
            is_lazy: false,
            replaces: None,
            offers: Vec::new(),
            records: GuardRecords::default(),
        };
        // No renewal is pending, so the lease can have any ttl.
        state.begin_guard(&shared.watchdog, options, times);
        let due = state.next_due(times);
        state.scheduled_at = Some(due);
        shared.context.holds.begin();
        let hold = Arc::new(Hold {
            name,
            lost: Notify::new(),
            shared,
            token,
            place: AtomicUsize::default(),
            guards: AtomicU32::new(1),
            state: Mutex::new(state),
        });
        let is_recalled = hold.shared.table.add(&hold);
        hold.shared.watchdog.schedule(None, due, hold.clone());
        if is_recalled {
            hold.context().publish_recall(&hold.name);
        }
        Ok(hold)
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    fn now(&self) -> Timestamp {
        self.context().clock.now()
    }

    pub(crate) fn key(&self) -> &str {
        self.context().key_of(&self.name)
    }

    /// Identifies the manager within the process.
    pub(crate) fn manager(&self) -> usize {
        self.shared.manager()
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    pub(crate) fn limit(&self) -> Limit {
        self.token.limit()
    }

    pub(crate) fn claim(&self) -> Claim {
        self.claim_in(&self.state())
    }

    /// Records that a transaction may rely on the guard, and maybe outlive it. From then on the hold passes
    /// to no other guard without a request: the server passes it on when the transaction has ended. Returns
    /// the claim.
    #[cfg(any(feature = "postgres", feature = "store"))]
    pub(crate) fn begin_proof(&self) -> Claim {
        self.state().reuse = Reuse::None;
        self.claim()
    }

    fn claim_in(&self, state: &State) -> Claim {
        Claim {
            name: self.name.clone(),
            token: self.token,
            ttl: state.lease.ttl(),
            replicas: state.replicas,
        }
    }

    /// Records that the server reports another owner, and returns that loss.
    pub(crate) fn not_owner(&self) -> LockError {
        self.mark_not_owner();
        self.check_lost().unwrap_or_else(|| self.not_owner_error())
    }

    /// Returns for how long the hold is proven; zero once its guards are to end it, it is lost, or released.
    pub(crate) fn remaining(&self) -> Duration {
        let now = self.now();
        let state = self.state();
        match state.phase {
            Phase::Held | Phase::Replaced => state.remaining(now),
            _ => Duration::ZERO,
        }
    }

    /// Checks the clock. Returns the loss of the lease, if it is lost.
    pub(crate) fn check_lost(&self) -> Option<LockError> {
        let loss = self.checked_state().phase.loss();
        loss.map(|(cause, since)| self.lost_error(cause, since))
    }

    /// Checks the clock, and returns the state.
    fn checked_state(&self) -> MutexGuard<'_, State> {
        let now = self.now();
        let state = self.state();
        if !state.phase.is_held() || !state.remaining(now).is_zero() {
            return state;
        }
        self.mark_expired(state, now);
        self.state()
    }

    /// Returns the cause of the loss, if one was noticed.
    pub(crate) fn lost_cause(&self) -> Option<LostCause> {
        self.state().phase.loss().map(|(cause, _)| cause)
    }

    pub(crate) fn ensure_valid_for(&self, duration: Duration) -> Result<(), LockError> {
        match self.check_lost() {
            Some(loss) => Err(loss),
            None if self.remaining() >= duration => Ok(()),
            None => Err(self.lost_error(LostCause::InsufficientTime, std::time::Instant::now())),
        }
    }

    /// Records that the server reports another owner.
    fn mark_not_owner(&self) {
        let state = self.state();
        if state.phase.is_held() {
            self.mark_lost(state, LostCause::NotOwner);
        }
    }

    fn mark_expired(&self, state: MutexGuard<'_, State>, now: Timestamp) {
        let cause = match state.hard_limit.as_deref() {
            Some((limit, cause)) if limit.remaining(now).is_zero() => *cause,
            // It was not to be renewed, except to correct its length.
            _ if !state.renew && state.renew_at.is_none() => LostCause::NotRenewed,
            _ => LostCause::Expired,
        };
        self.mark_lost(state, cause);
    }

    fn mark_lost(&self, mut state: MutexGuard<'_, State>, cause: LostCause) {
        self.unschedule(&mut state);
        if cause != LostCause::NotOwner {
            let left = state.lease.on_server(self.now());
            self.shared.watchdog.lost_until(time::now() + left);
        }
        self.end_guards(state, Phase::Lost(cause, std::time::Instant::now()), cause);
    }

    /// Begins a phase in which no guard may rely on the lock any more, and notifies all of them.
    fn end_guards(&self, mut state: MutexGuard<'_, State>, phase: Phase, cause: LostCause) {
        let before = std::mem::replace(&mut state.phase, phase);
        let offers = std::mem::take(&mut state.offers);
        let is_kept = state.reuse == Reuse::Kept;
        let records = match phase {
            // Reports show whose guard it still is.
            Phase::Asked(_) => state.records.clone(),
            _ => std::mem::take(&mut state.records),
        };
        drop(state);
        if !phase.is_held() {
            let table = &self.shared.table;
            table.end(&self.name, self.token, End::Lost);
        }
        // The wakers belong to the caller's executor, and may panic.
        contain(|| self.lost.notify_waiters());
        if !matches!(before, Phase::Held | Phase::Replaced) {
            return;
        }
        // No caller has lost a lock that was only kept.
        if records.is_empty() && !is_kept {
            trace::lost(None, self.key(), cause);
        }
        for record in records.iter() {
            record.lost(self.context(), self.key(), cause);
        }
        for offer in offers {
            offer.offered.withdraw();
        }
    }

    /// Records that this process no longer holds the lock.
    pub(crate) fn vacate(&self) {
        let table = &self.shared.table;
        table.end(&self.name, self.token, End::Over);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn lost_error(&self, cause: LostCause, noticed_at: std::time::Instant) -> LockError {
        LockError::Lost {
            key: self.key().into(),
            cause,
            noticed_at,
        }
    }

    fn not_owner_error(&self) -> LockError {
        self.lost_error(LostCause::NotOwner, std::time::Instant::now())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.context().holds.end();
    }
}
