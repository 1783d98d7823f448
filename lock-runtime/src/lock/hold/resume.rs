//! A hold that its process keeps for its next call.

use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, Reuse, State};
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use crate::util::sync::MutexGuard;
use crate::util::time;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// A recall costs another process about as much as so many calls save that send nothing.
const WORTH_A_RECALL: u32 = 3;

impl Hold {
    /// Begins the tenure of a lock that was free, and whose token says that it may be recalled.
    pub(crate) fn begin_tenure(&self) {
        self.state().reuse = Reuse::Keep;
    }

    /// Returns `true` if the lock is kept, or may be.
    pub(crate) fn is_in_tenure(&self) -> bool {
        self.state().is_in_tenure()
    }

    /// Keeps the lock for the next call, if the guard that ends leaves it to this process. The caller owns
    /// the hold then.
    pub(crate) fn keep(&self) -> bool {
        let mut state = self.state();
        let keeps = state.phase == Phase::Held
            && state.reuse == Reuse::Keep
            && state.is_lazy
            && state.rest_of_min_hold().is_none()
            && self.context().handoff.max_count > 0;
        if keeps {
            state.reuse = Reuse::Kept;
            state.guard_since = time::now();
            state.hard_limit = None;
            self.guards.store(1, Ordering::Release);
        }
        keeps
    }

    /// Gives a kept lock to a guard with these options. Returns `false` if that is not possible; then the
    /// lock is no longer to be kept.
    pub(crate) fn try_resume(self: &Arc<Self>, options: LockOptions) -> bool {
        let resumes = self.limit() == options.limit
            && options.renew
            && options.ttl == self.state().lease.ttl()
            && self.try_reassign(options, Some(false));
        if !resumes {
            self.state().end_tenure();
        }
        resumes
    }

    /// Returns for how long a lock that was recalled is not kept again: for a tenure, unless it has paid off
    /// to keep it.
    pub(crate) fn back_off(&self) -> Option<Duration> {
        let state = self.state();
        (state.handoffs < WORTH_A_RECALL).then(|| state.lease.ttl() / 3)
    }

    /// Gives a kept lock back, since its renewal is due. `instant` and `now` are the same point in time.
    pub(super) fn end_tenure(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        (instant, now): (Instant, Timestamp),
    ) {
        // A caller that is about to resume it renews it.
        let end = instant + state.remaining(now);
        self.schedule(&mut state, end);
        self.end_keeping(state);
    }

    /// Gives a kept lock back. A caller that has just resumed it goes on, and is the last one.
    pub(super) fn end_keeping(&self, mut state: MutexGuard<'_, State>) {
        state.end_tenure();
        drop(state);
        self.shared.table.end_keeping(&self.name, self.token);
    }
}

impl State {
    /// Returns `true` if other processes would recall the lock.
    pub(super) fn is_in_tenure(&self) -> bool {
        matches!(self.reuse, Reuse::Keep | Reuse::Kept)
    }

    /// Lets the lock not be kept any more.
    pub(super) fn end_tenure(&mut self) {
        if self.is_in_tenure() {
            self.reuse = Reuse::HandOff;
        }
    }
}
