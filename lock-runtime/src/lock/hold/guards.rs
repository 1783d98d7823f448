//! The guards that own a hold, one after the other; readers also side by side.

use crate::engine::lease::Lease;
use crate::error::LostCause;
use crate::limit::Limit;
use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, Reuse, State};
use crate::lock::record::guard::GuardRecord;
use crate::lock::record::guards::GuardRecords;
use crate::lock::watchdog::Watchdog;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use crate::util::time::{self, deadline_in};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

impl Hold {
    /// Offers a granted lock to another waiter, since the one before left before it received the hold.
    /// Returns `false` if the lease has ended, or cannot have these options: renewals for the waiter before
    /// may be in flight.
    pub(crate) fn offer_again(self: &Arc<Self>, options: LockOptions) -> bool {
        let times = (time::now(), self.now());
        let mut state = self.state();
        state.phase == Phase::Held
            && !state.lease.remaining(times.1).is_zero()
            && self.begin_guard(&mut state, options, times)
    }

    /// Hands the hold to another guard of this process, with `options`, without a request to the server.
    /// Returns `false` if that is not allowed. `remote_waiters`: `true` if other processes wait, `None` if
    /// that is unknown.
    pub(crate) fn try_reassign(
        self: &Arc<Self>,
        options: LockOptions,
        remote_waiters: Option<bool>,
    ) -> bool {
        let now = self.now();
        let mut state = self.state();
        let limits = self.context().handoff;
        // A reader waits because a writer came before it: perhaps one of another process, which it must not
        // pass.
        let may_pass = self.limit() != Limit::UNLIMITED && !options.is_of_several;
        // Others would have recalled it.
        let remote_waiters = remote_waiters.or(state.is_in_tenure().then_some(false));
        let within_limits = limits.max_count > 0
            && (remote_waiters == Some(false) || (may_pass && state.may_be_handed_off(limits)));
        let replicated = options.replicas <= state.replicas;
        if state.phase != Phase::Held
            || state.reuse == Reuse::None
            || self.context().is_closed()
            || state.rest_of_min_hold().is_some()
            || !within_limits
            || !state.is_long_enough(options, now)
            || !replicated
            || !self.begin_guard(&mut state, options, (time::now(), now))
        {
            return false;
        }
        state.handoffs += 1;
        true
    }

    /// Adds the guard of a reader beside those that own this read hold, without a request to the server.
    /// Returns `false` if that is not allowed: writers may wait on the server, so the limits of local handoff
    /// apply.
    pub(crate) fn try_join(&self, options: LockOptions) -> bool {
        let now = self.now();
        let mut state = self.state();
        let limits = self.context().handoff;
        let joins = state.phase == Phase::Held
            && self.limit() == Limit::UNLIMITED
            && options.ttl == state.lease.ttl()
            && options.replicas <= state.replicas
            && options.renew
            && options.max_hold.is_none()
            && state.hard_limit.is_none()
            && state.may_be_handed_off(limits)
            && state.is_long_enough(options, now)
            && self.add_guard();
        if joins {
            state.handoffs += 1;
        }
        joins
    }

    /// Adds a guard within the body that runs under this hold. Returns `false` if the hold has ended.
    pub(crate) fn share(&self) -> bool {
        let state = self.state();
        state.phase == Phase::Held && self.add_guard()
    }

    /// Keeps the lock for at least that long from now on, on every path.
    pub(crate) fn retain_for(&self, min_hold: Duration) {
        let mut state = self.state();
        state.retain_until = state.retain_until.max(Some(deadline_in(min_hold)));
    }

    /// Reports a loss by that record, as long as its guard owns the hold: also one that was noticed before
    /// its caller had the guard.
    pub(crate) fn report_loss_by(&self, record: &Arc<GuardRecord>) {
        let mut state = self.state();
        match state.phase.loss() {
            Some((cause, _)) => {
                drop(state);
                record.lost(self.context(), self.key(), cause);
            }
            None => state.records.add(record.clone()),
        }
    }

    /// Records that a guard has ended. Returns `true` if it was the last one: the hold must be handed on or
    /// released. The others' losses are not reported by its `record`.
    pub(crate) fn leave(&self, record: Option<&Arc<GuardRecord>>) -> bool {
        let alone = self.change_guards(|guards| (guards == 1).then_some(0));
        if alone.is_some() {
            return true;
        }
        let mut state = self.state();
        let is_last = self.change_guards(|guards| guards.checked_sub(1)) == Some(1);
        if let Some(record) = record {
            state.records.remove(record);
        }
        is_last
    }

    /// Gives the hold to a new guard. Returns `false`, and changes nothing, if the lease cannot have its ttl.
    /// `times` are the same point in time.
    fn begin_guard(
        self: &Arc<Self>,
        state: &mut State,
        options: LockOptions,
        times: (Instant, Timestamp),
    ) -> bool {
        let begins = state.begin_guard(&self.shared.watchdog, options, times);
        if begins {
            // All of them have ended with the guards before, which free their records.
            state.offers.clear();
            state.records = GuardRecords::default();
            self.guards.store(1, Ordering::Release);
            self.reschedule(state, times);
        }
        begins
    }

    /// Adds a guard beside those that own the hold. Returns `false` if none does any more.
    fn add_guard(&self) -> bool {
        let added = self.change_guards(|guards| (guards > 0).then_some(guards + 1));
        added.is_some()
    }

    /// Changes the number of guards, unless `change` returns `None`. Returns the number before.
    fn change_guards(&self, change: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.guards.fetch_update(set, fetch, change).ok()
    }
}

impl State {
    /// Starts the limits of a new guard. Returns `false`, and changes nothing, if the lease cannot have its
    /// ttl. `instant` and `now` are the same point in time.
    pub(super) fn begin_guard(
        &mut self,
        watchdog: &Watchdog,
        options: LockOptions,
        (instant, now): (Instant, Timestamp),
    ) -> bool {
        let remaining = self.lease.remaining(now);
        if !self.lease.agree(options.ttl, now) {
            return false;
        }
        self.renew = options.renew;
        self.replicas = options.replicas;
        self.fencing_token = None;
        self.is_lazy = options.is_lazy();
        if self.reuse == Reuse::Kept {
            self.reuse = Reuse::Keep;
        }
        self.guard_since = instant;
        let by_ttl = (!options.renew)
            .then(|| (Lease::from_request(now, options.ttl), LostCause::NotRenewed));
        let by_max_hold = options
            .max_hold
            .map(|max_hold| (Lease::exactly(now, max_hold), LostCause::MaxHold));
        self.hard_limit = [by_ttl, by_max_hold]
            .into_iter()
            .flatten()
            .min_by_key(|(limit, _)| limit.remaining(now))
            .map(Box::new);
        // Without renewal, a lease is renewed only to correct its length: that of a grant is shorter, and
        // that of the previous guard may be longer.
        let expected = Lease::from_request(now, options.ttl).remaining(now);
        let tolerance = options.ttl / 10 + Duration::from_millis(5);
        if remaining > expected + tolerance {
            self.renew_at = Some(instant);
        } else if self.renew_at.is_none() && (options.renew || remaining + tolerance < expected) {
            let remaining = self.lease.remaining(now);
            self.renew_at = Some(watchdog.next_renewal(instant, remaining));
        }
        true
    }

    /// Returns `true` if the rest of the lease is worth another guard.
    fn is_long_enough(&self, options: LockOptions, now: Timestamp) -> bool {
        let remaining = self.lease.remaining(now);
        match options.renew {
            true => remaining >= (options.ttl / 3).min(Duration::from_millis(500)),
            false => remaining >= options.ttl.mul_f64(0.9),
        }
    }
}
