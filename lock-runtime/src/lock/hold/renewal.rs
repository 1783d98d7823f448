//! When a hold is renewed, and how the replies change its lease.

use crate::engine::error::EngineError;
use crate::engine::lease::Lease;
#[cfg(feature = "testing")]
use crate::engine::request::Claim;
use crate::error::LostCause;
use crate::lock::hold::Hold;
use crate::lock::hold::state::{Phase, Reuse, State};
use crate::lock::watchdog::renewable::{Renewable, Renewal, Since};
use crate::lock::watchdog::timing;
use crate::process_info::ReportedHold;
use crate::site::{Purpose, Site};
use crate::trace;
use crate::util::clock::Timestamp;
use crate::util::time;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::time::Instant;

impl Hold {
    #[cfg(test)]
    pub(crate) fn renews_at(&self) -> Option<Instant> {
        self.state().renew_at
    }

    /// Schedules the hold for its next renewal, or its end. `instant` and `now` are the same point in time.
    pub(super) fn reschedule(
        self: &Arc<Self>,
        state: &mut State,
        (instant, now): (Instant, Timestamp),
    ) {
        let due = state.next_due((instant, now));
        // A hold that is scheduled too early is scheduled again then.
        if state.scheduled_at.is_none_or(|at| due < at) {
            self.schedule(state, due);
        }
    }

    pub(super) fn schedule(self: &Arc<Self>, state: &mut State, due: Instant) {
        let before = state.scheduled_at.replace(due);
        self.shared.watchdog.schedule(before, due, self.clone());
    }

    pub(super) fn unschedule(&self, state: &mut State) {
        state.renew_at = None;
        if let Some(due) = state.scheduled_at.take() {
            self.shared.watchdog.unschedule(due, self);
        }
    }
}

impl State {
    /// Returns when the hold is renewed next, ends, or must have been picked up. `instant` and `now` are the
    /// same point in time.
    pub(super) fn next_due(&self, (instant, now): (Instant, Timestamp)) -> Instant {
        let end = instant + self.remaining(now);
        let others = [self.renew_at, self.offered_until()];
        others.into_iter().flatten().fold(end, Instant::min)
    }
}

impl Renewable for Hold {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> &AtomicUsize {
        &self.place
    }

    fn on_due(self: Arc<Self>, instant: Instant, now: Timestamp) -> Option<Renewal> {
        let mut state = self.state();
        if !state.phase.is_held() {
            return None;
        }
        if state.remaining(now).is_zero() {
            self.mark_expired(state, now);
            return None;
        }
        if self.shared.watchdog.cancels() {
            self.mark_lost(state, LostCause::ShutDown);
            return None;
        }
        if state.reuse == Reuse::Kept && state.renew_at.is_some_and(|at| at <= instant) {
            self.end_tenure(state, (instant, now));
            return None;
        }
        let late = state.take_late_offers(instant);
        if !late.is_empty() {
            let due = state.next_due((instant, now));
            self.schedule(&mut state, due);
            drop(state);
            // A renewal that is due, too, follows if the hold has not ended.
            self.expire(late, instant);
            return None;
        }
        let renewal = state.renew_at.is_some_and(|at| at <= instant).then(|| {
            // What the lease will be if the renewal succeeds.
            let whole = Lease::from_request(now, state.lease.ttl()).remaining(now);
            let next = || self.shared.watchdog.next_renewal(instant, whole);
            state.renew_at = state.renew.then(next);
            state.end_tenure();
            state.lease.sends_renewal();
            let timeout = timing::timeout(state.lease.remaining(now));
            Renewal {
                claim: self.claim_in(&state),
                timeout: timeout.min(self.context().command_timeout),
                hold: self.clone(),
            }
        });
        let due = state.next_due((instant, now));
        self.schedule(&mut state, due);
        renewal
    }

    /// Extends the lease. The reply counts only while the current lease is valid.
    fn on_renewed(self: Arc<Self>, sent: Timestamp, now: Timestamp, is_owner: bool) -> Option<f64> {
        let mut state = self.state();
        if !state.phase.is_renewed() {
            return None;
        }
        if !is_owner {
            self.mark_lost(state, LostCause::NotOwner);
            return None;
        }
        if state.remaining(now).is_zero() {
            self.mark_expired(state, now);
            return None;
        }
        let (engine, ttl) = (&self.context().engine, state.lease.ttl());
        let left = state.lease.part_left(now);
        let renewed = engine.lease(self.token, sent, ttl);
        state.lease.renewed(renewed, now);
        let is_whole = renewed.remaining(sent) >= Lease::from_request(sent, ttl).remaining(sent);
        if is_whole && state.renew_at.is_some() && state.scheduled_at == state.renew_at {
            return Some(left);
        }
        let instant = time::now();
        if state.renew {
            let remaining = state.lease.remaining(now);
            let next = self.shared.watchdog.next_renewal(instant, remaining);
            state.renew_at = Some(next);
        }
        self.reschedule(&mut state, (instant, now));
        Some(left)
    }

    /// Schedules the next attempt. The lease stays as it is.
    fn on_renewal_failed(self: Arc<Self>, error: &EngineError) {
        let (instant, now) = (time::now(), self.now());
        let mut state = self.state();
        if !state.phase.is_renewed() {
            return;
        }
        let remaining = state.lease.remaining(now);
        let delay = timing::retry_delay(remaining);
        let retry = self.shared.watchdog.align_to_grid(instant + delay, delay);
        state.renew_at = Some(state.renew_at.map_or(retry, |at| at.min(retry)));
        self.reschedule(&mut state, (instant, now));
        drop(state);
        trace::renewal_failed(self.key(), error, remaining);
    }

    fn renew_now(self: Arc<Self>) {
        let (instant, now) = (time::now(), self.now());
        let mut state = self.state();
        if state.phase.is_renewed() && state.renew && state.reuse != Reuse::Kept {
            state.renew_at = Some(instant);
            self.reschedule(&mut state, (instant, now));
        }
    }

    fn since(&self) -> Option<Since> {
        let state = self.state();
        state.phase.is_held().then_some(match state.reuse {
            Reuse::Kept => Since::Kept(state.guard_since),
            _ => Since::Held(state.guard_since),
        })
    }

    fn guard(&self) -> Option<(Instant, Option<&'static Site>)> {
        let state = self.state();
        let record = state.records.iter().next()?;
        (state.phase.is_held() && state.reuse != Reuse::Kept)
            .then_some((state.guard_since, record.purpose.site))
    }

    fn describe(&self) -> ReportedHold {
        let state = self.state();
        let ttl = state.lease.ttl();
        // The lease of a grant is shorter, and one whose guard has a `min_hold` is retained without renewals.
        let is_renewed = state.renew
            && state.reuse != Reuse::Kept
            && state.retain_until.is_none()
            && state.remaining(self.now()) > ttl / 2;
        let purpose = state.records.iter().next().map(|record| &record.purpose);
        let site = purpose.and_then(|purpose| purpose.site);
        let label = purpose.and_then(Purpose::label);
        ReportedHold {
            token: self.token.to_string().into(),
            held: time::elapsed_since(state.guard_since),
            handoffs: state.handoffs,
            is_kept: state.reuse == Reuse::Kept,
            is_revoked: matches!(state.phase, Phase::Asked(_)),
            ttl: is_renewed.then_some(ttl),
            template: site.map_or("", Site::template).into(),
            place: site.map(Site::place).unwrap_or_default().into(),
            label: label.unwrap_or_default().into(),
            key: self.key().into(),
        }
    }

    #[cfg(feature = "testing")]
    fn lose(&self, cause: LostCause) -> Claim {
        let state = self.state();
        if state.phase.is_held() {
            self.mark_lost(state, cause);
        }
        self.claim()
    }
}
