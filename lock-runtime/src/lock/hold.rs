//! One held lock, from the request until the server stores nothing of it any more. Within the process it may
//! be handed from guard to guard, and a read hold may have several guards at once.

use crate::engine::error::EngineError;
use crate::engine::lease::Lease;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::error::{LockError, LostCause};
use crate::limit::Limit;
use crate::lock::context::{Context, Effort};
use crate::lock::lease::HeldLease;
use crate::lock::renewal_timing;
use crate::lock::shared::Shared;
use crate::lock::watchdog::{Renewable, Renewal};
use crate::options::LockOptions;
use crate::trace::{self, SpanHandle};
use crate::util::clock::Timestamp;
use crate::util::panics::contain;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{self, deadline_in, elapsed_since};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Hold {
    pub(crate) name: Arc<str>,
    pub(crate) lost: Notify,
    shared: Arc<Shared>,
    token: Token,
    /// The hold's place in the watchdog's schedule.
    place: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    lease: HeldLease,
    /// The options of the current guard: whether the lease is renewed, and acknowledged by how many replicas.
    renew: bool,
    replicas: u32,
    /// The end of the current guard's time, independent of the lease. Boxed: few guards have one.
    hard_limit: Option<Box<(Lease, LostCause)>>,
    /// When the next renewal is due: while one is in flight, if that succeeds.
    renew_at: Option<Instant>,
    /// The instant for which the watchdog has scheduled the hold.
    scheduled_at: Option<Instant>,
    /// The guards that own the hold: one, or several readers; none while it ends.
    guards: u32,
    /// How often the hold was handed from guard to guard, or joined.
    handoffs: u32,
    held_since: Instant,
    /// The end of the longest `min_hold` of its guards so far.
    keep_until: Option<Instant>,
    /// The fencing token of the guards that own the hold, once it is known.
    fencing_token: Option<u64>,
    /// A read hold is about to replace this one.
    replaced: bool,
    /// A transaction may rely on the guard: the server must know when another guard comes.
    ensured: bool,
    /// The span in which a loss is reported to the current guard.
    span: SpanHandle,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Requested,
    Held,
    Lost(LostCause, std::time::Instant),
    /// The guard has ended; the server may not have released the lock yet.
    Releasing,
    /// The server stores nothing of the hold any more.
    Released,
}

/// What the release of a hold has to do.
struct Release {
    /// `true` if the lock was held until now.
    was_held: bool,
    /// The time for which the lock must stay held.
    rest_of_min_hold: Option<Duration>,
}

impl Hold {
    /// Creates a hold that is about to be requested with `token`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        name: Arc<str>,
        token: Token,
        options: LockOptions,
    ) -> Arc<Hold> {
        let now = shared.context.clock.now();
        Arc::new(Hold {
            name,
            lost: Notify::new(),
            shared,
            token,
            place: AtomicUsize::default(),
            state: Mutex::new(State {
                phase: Phase::Requested,
                lease: HeldLease::new(Lease::without_margin(now, Duration::ZERO), options.ttl),
                renew: options.renew,
                replicas: options.replicas,
                hard_limit: None,
                renew_at: None,
                scheduled_at: None,
                guards: 0,
                handoffs: 0,
                held_since: time::now(),
                keep_until: None,
                fencing_token: None,
                replaced: false,
                ensured: false,
                span: SpanHandle::default(),
            }),
        })
    }

    pub(crate) fn context(&self) -> &Context {
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

    fn claim_in(&self, state: &State) -> Claim {
        Claim {
            name: self.name.clone(),
            token: self.token,
            ttl: state.lease.ttl(),
            replicas: state.replicas,
        }
    }

    /// Records that the server has granted the lock for `lease`. Returns `false` if the lease has ended, or
    /// cannot have these options.
    pub(crate) fn activate(self: &Arc<Self>, options: LockOptions, lease: Lease) -> bool {
        let now = self.now();
        if lease.remaining(now).is_zero() {
            self.state().phase = Phase::Releasing;
            return false;
        }
        self.shared.observer.on_held(&self.name, self.token);
        let mut state = self.state();
        match state.phase {
            Phase::Requested => {
                state.phase = Phase::Held;
                state.lease = HeldLease::new(lease, options.ttl);
            }
            // An earlier waiter left before it received the hold; renewals for it may be in flight.
            Phase::Held => {}
            _ => return false,
        }
        self.begin_guard(&mut state, options, now)
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
        // A reader waits because a writer came before it: perhaps one of another process, which it must not pass.
        let may_pass = self.limit() != Limit::UNLIMITED && !options.is_of_several;
        let within_limits = limits.max_count > 0
            && (remote_waiters == Some(false)
                || (may_pass
                    && state.handoffs < limits.max_count
                    && elapsed_since(state.held_since) < limits.max_time));
        let replicated = options.replicas <= state.replicas;
        if state.phase != Phase::Held
            || state.replaced
            || state.ensured
            || state.rest_of_min_hold().is_some()
            || !within_limits
            || !state.is_long_enough(options, now)
            || !replicated
            || !self.begin_guard(&mut state, options, now)
        {
            return false;
        }
        state.handoffs += 1;
        true
    }

    /// Adds the guard of a reader beside those that own this read hold, without a request to the server. Returns
    /// `false` if that is not allowed: writers may wait on the server, so the limits of local handoff apply.
    pub(crate) fn try_join(&self, options: LockOptions) -> bool {
        let now = self.now();
        let mut state = self.state();
        let limits = self.context().handoff;
        let joins = state.phase == Phase::Held
            && state.guards > 0
            && self.limit() == Limit::UNLIMITED
            && options.ttl == state.lease.ttl()
            && options.replicas <= state.replicas
            && options.renew
            && options.max_hold.is_none()
            && state.hard_limit.is_none()
            && state.handoffs < limits.max_count
            && elapsed_since(state.held_since) < limits.max_time
            && state.is_long_enough(options, now);
        if joins {
            state.guards += 1;
            state.handoffs += 1;
        }
        joins
    }

    /// Adds a guard within the body that runs under this hold. Returns `false` if the hold has ended.
    pub(crate) fn share(&self) -> bool {
        let mut state = self.state();
        let shares = state.phase == Phase::Held && state.guards > 0 && !state.replaced;
        if shares {
            state.guards += 1;
        }
        shares
    }

    /// Ends the renewals, since a read hold is about to replace this one. Returns its claim. Fails if the lease is
    /// lost, or if another guard owns the hold too: its body must remain exclusive.
    pub(crate) fn begin_replacement(&self) -> Result<Claim, LockError> {
        if let Some(loss) = self.check_lost() {
            return Err(loss);
        }
        let mut state = self.state();
        if state.guards > 1 {
            return Err(LockError::InvalidOption {
                option: "mode",
                reason: "a nested call with `reentrant = true` shares this hold; only its last guard can \
                         be downgraded",
            });
        }
        state.replaced = true;
        state.renew_at = None;
        Ok(self.claim_in(&state))
    }

    /// Returns the read hold with that token and lease, which has what is left of this guard's time. Fails if the
    /// lease of this hold ended before the server answered.
    pub(crate) fn replace(&self, token: Token, lease: Lease) -> Result<Arc<Hold>, LockError> {
        if let Some(loss) = self.check_lost() {
            return Err(loss);
        }
        let (options, hard_limit, keep_until, fencing_token) = {
            let state = self.state();
            let options = LockOptions {
                renew: state.renew,
                replicas: state.replicas,
                ..LockOptions::new(token.limit(), state.lease.ttl())
            };
            (
                options,
                state.hard_limit.clone(),
                state.keep_until,
                state.fencing_token,
            )
        };
        let next = Hold::new(self.shared.clone(), self.name.clone(), token, options);
        if !next.activate(options, lease) {
            return Err(self.lost_error(LostCause::Expired, std::time::Instant::now()));
        }
        let now = self.now();
        let mut state = next.state();
        state.hard_limit = hard_limit;
        state.keep_until = keep_until;
        state.fencing_token = fencing_token;
        next.reschedule(&mut state, (time::now(), now));
        drop(state);
        Ok(next)
    }

    /// Ends this hold without a request, since a read hold has replaced it.
    pub(crate) fn end_replaced(&self) {
        let mut state = self.state();
        self.unschedule(&mut state);
        state.phase = Phase::Released;
        drop(state);
        self.shared.observer.on_vacated(&self.name, self.token);
    }

    /// Keeps the lock for at least that long from now on, on every path.
    pub(crate) fn keep_for(&self, min_hold: Duration) {
        let mut state = self.state();
        state.keep_until = state.keep_until.max(Some(deadline_in(min_hold)));
    }

    /// Ends this hold, and another claim that may have replaced it, in the background.
    pub(crate) fn end_both_in_background(&self, other: Claim) {
        let rest = self.state().rest_of_min_hold();
        self.release_in_background();
        let releaser = &self.shared.releaser;
        match rest {
            Some(rest) => releaser.end_in_background(other, rest),
            None => releaser.release_in_background(other, false),
        }
    }

    /// Records that a transaction may rely on the guard, and maybe outlive it. From then on the hold passes to no other
    /// guard without a request: the server passes it on when the transaction has ended. Returns the claim.
    #[cfg(feature = "postgres")]
    pub(crate) fn begin_ensure(&self) -> Claim {
        self.state().ensured = true;
        self.claim()
    }

    /// Records that the server reports another owner, and returns that loss.
    pub(crate) fn not_owner(&self) -> LockError {
        self.mark_not_owner();
        self.check_lost().unwrap_or_else(|| self.not_owner_error())
    }

    /// Records that a guard has ended. Returns `true` if it was the last one: the hold must be handed on or
    /// released. `owns_span`: a loss is reported in that guard's span.
    pub(crate) fn leave(&self, owns_span: bool) -> bool {
        let mut state = self.state();
        state.guards = state.guards.saturating_sub(1);
        let is_last = state.guards == 0;
        let _ended = (owns_span && !is_last).then(|| std::mem::take(&mut state.span));
        // Before the span ends, which may call a subscriber.
        drop(state);
        is_last
    }

    /// Reports a loss in `span` from now on.
    pub(crate) fn set_span(&self, span: SpanHandle) {
        // Drop outside the mutex: this may call a subscriber.
        let _before = std::mem::replace(&mut self.state().span, span);
    }

    /// Starts the limits of a new guard. Returns `false`, and changes nothing, if the lease cannot have its
    /// ttl.
    fn begin_guard(
        self: &Arc<Self>,
        state: &mut State,
        options: LockOptions,
        now: Timestamp,
    ) -> bool {
        let remaining = state.lease.remaining(now);
        if !state.lease.agree(options.ttl, now) {
            return false;
        }
        state.renew = options.renew;
        state.replicas = options.replicas;
        state.guards = 1;
        state.fencing_token = None;
        let by_ttl =
            (!options.renew).then(|| (Lease::from_request(now, options.ttl), LostCause::Expired));
        let by_max_hold = options
            .max_hold
            .map(|max_hold| (Lease::without_margin(now, max_hold), LostCause::MaxHold));
        state.hard_limit = [by_ttl, by_max_hold]
            .into_iter()
            .flatten()
            .min_by_key(|(limit, _)| limit.remaining(now))
            .map(Box::new);
        // Without renewal, a lease is renewed only to correct its length: that of a grant is shorter, and that
        // of the previous guard may be longer.
        let expected = Lease::from_request(now, options.ttl).remaining(now);
        let tolerance = options.ttl / 10 + Duration::from_millis(5);
        let instant = time::now();
        if remaining > expected + tolerance {
            state.renew_at = Some(instant);
        } else if state.renew_at.is_none() && (options.renew || remaining + tolerance < expected) {
            state.renew_at = Some(self.next_renewal_with(state.lease.remaining(now)));
        }
        self.reschedule(state, (instant, now));
        true
    }

    #[cfg(test)]
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.state().renew_at
    }

    /// Returns for how long the hold is proven; zero once it is lost or released.
    pub(crate) fn remaining(&self) -> Duration {
        let now = self.now();
        let state = self.state();
        match state.phase {
            Phase::Held => state.remaining(now),
            _ => Duration::ZERO,
        }
    }

    /// Checks the clock. Returns the loss of the lease, if it is lost.
    pub(crate) fn check_lost(&self) -> Option<LockError> {
        let now = self.now();
        let state = self.state();
        let phase = match state.phase {
            Phase::Held if state.remaining(now).is_zero() => {
                self.mark_expired(state, now);
                self.state().phase
            }
            phase => phase,
        };
        match phase {
            Phase::Lost(cause, since) => Some(self.lost_error(cause, since)),
            _ => None,
        }
    }

    pub(crate) fn ensure_valid_for(&self, duration: Duration) -> Result<(), LockError> {
        match self.check_lost() {
            Some(loss) => Err(loss),
            None if self.remaining() >= duration => Ok(()),
            None => Err(self.lost_error(LostCause::InsufficientTime, std::time::Instant::now())),
        }
    }

    /// Releases the lock and returns the result. If this fails or is dropped, the caller must call
    /// [`release_in_background`](Self::release_in_background).
    pub(crate) async fn release(&self) -> Result<(), LockError> {
        let loss = self.check_lost();
        let Some(release) = self.begin_release() else {
            return loss.map_or(Ok(()), Err);
        };
        let claim = self.claim();
        if let Some(rest) = release.rest_of_min_hold {
            return self.end_after(claim, rest).await;
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
                Some(rest) => releaser.end_in_background(self.claim(), rest),
                None => releaser.release_in_background(self.claim(), release.was_held),
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
        let _span = std::mem::take(&mut state.span);
        drop(state);
        self.shared.observer.on_vacated(&self.name, self.token);
        let was_held = before == Phase::Held;
        Some(Release {
            was_held,
            // After a failed attempt the phase is no longer `Held`, and the rest is still to be waited for.
            rest_of_min_hold: rest.filter(|_| matches!(before, Phase::Held | Phase::Releasing)),
        })
    }

    /// Returns a number greater than that of every earlier hold. Guards that own the hold together have the same.
    pub(crate) async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(token) = self.known_fencing_token() {
            return self.check_lost().map_or(Ok(token), Err);
        }
        let drawn = self.draw_fencing_token().await?;
        Ok(self.learn_fencing_token(drawn))
    }

    /// Returns the fencing token of the guards that own the hold, if any of them has drawn one.
    pub(crate) fn known_fencing_token(&self) -> Option<u64> {
        self.state().fencing_token
    }

    /// Records the fencing token of the guards that own the hold. Returns the one that was recorded first.
    pub(crate) fn learn_fencing_token(&self, token: u64) -> u64 {
        *self.state().fencing_token.get_or_insert(token)
    }

    /// Fetches a number greater than that of every earlier hold.
    pub(crate) async fn draw_fencing_token(&self) -> Result<u64, LockError> {
        if let Some(loss) = self.check_lost() {
            return Err(loss);
        }
        let claim = self.claim();
        let deadline = time::now() + self.remaining();
        let context = self.context();
        let request = |deadline| context.engine.fencing_token(&claim, deadline);
        let token = context.retry(Effort::InCall { deadline }, request).await;
        match token {
            // The number is this hold's only if the lock was still held when it arrived.
            Ok((Some(token), _)) => self.check_lost().map_or(Ok(token), Err),
            Ok((None, _)) => Err(self.not_owner()),
            Err(error) => Err(self
                .check_lost()
                .unwrap_or_else(|| context.unavailable(&self.name, error))),
        }
    }

    /// Makes all later numbers of this lock's counter greater than `token`.
    pub(crate) async fn raise_fencing_token(&self, token: u64) -> Result<(), LockError> {
        let claim = self.claim();
        let deadline = time::now() + self.remaining();
        let context = self.context();
        let request = |deadline| context.engine.raise_fencing_token(&claim, token, deadline);
        match context.retry(Effort::InCall { deadline }, request).await {
            Ok((true, _)) => Ok(()),
            Ok((false, _)) => Err(self.not_owner()),
            Err(error) => Err(self
                .check_lost()
                .unwrap_or_else(|| context.unavailable(&self.name, error))),
        }
    }

    /// Records that the server reports another owner.
    fn mark_not_owner(&self) {
        let state = self.state();
        if state.phase == Phase::Held {
            self.mark_lost(state, LostCause::NotOwner);
        }
    }

    fn mark_expired(&self, state: MutexGuard<'_, State>, now: Timestamp) {
        let cause = match state.hard_limit.as_deref() {
            Some((limit, cause)) if limit.remaining(now).is_zero() => *cause,
            _ => LostCause::Expired,
        };
        self.mark_lost(state, cause);
    }

    fn mark_lost(&self, mut state: MutexGuard<'_, State>, cause: LostCause) {
        state.phase = Phase::Lost(cause, std::time::Instant::now());
        self.unschedule(&mut state);
        let span = std::mem::take(&mut state.span);
        drop(state);
        self.shared.observer.on_vacated(&self.name, self.token);
        // The wakers belong to the caller's executor, and may panic.
        contain(|| self.lost.notify_waiters());
        trace::lost(&span, self.key(), cause);
    }

    fn unschedule(&self, state: &mut State) {
        state.renew_at = None;
        if let Some(due) = state.scheduled_at.take() {
            self.shared.watchdog.unschedule(due, self);
        }
    }

    /// Returns when a lease that remains for that long is renewed.
    fn next_renewal_with(&self, remaining: Duration) -> Instant {
        let delay = renewal_timing::delay(remaining);
        self.shared.watchdog.align_to_grid(delay)
    }

    /// Schedules the hold for its next renewal, or its end. `instant` and `now` are the same point in time.
    fn reschedule(self: &Arc<Self>, state: &mut State, (instant, now): (Instant, Timestamp)) {
        let end = instant + state.remaining(now);
        let due = state.renew_at.map_or(end, |renew| renew.min(end));
        let before = state.scheduled_at.replace(due);
        if before != Some(due) {
            self.shared.watchdog.schedule(before, due, self.clone());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Renewable for Hold {
    fn name(&self) -> &str {
        &self.name
    }

    fn place(&self) -> &AtomicUsize {
        &self.place
    }

    fn on_due(self: Arc<Self>, instant: Instant, now: Timestamp) -> Option<Renewal> {
        let mut state = self.state();
        if state.phase != Phase::Held {
            return None;
        }
        if state.remaining(now).is_zero() {
            self.mark_expired(state, now);
            return None;
        }
        let renewal = state.renew_at.is_some_and(|at| at <= instant).then(|| {
            // What the lease will be if the renewal succeeds.
            let whole = Lease::from_request(now, state.lease.ttl()).remaining(now);
            state.renew_at = state.renew.then(|| self.next_renewal_with(whole));
            state.lease.sends_renewal();
            let timeout = renewal_timing::timeout(state.lease.remaining(now));
            Renewal {
                claim: self.claim_in(&state),
                timeout: timeout.min(self.context().command_timeout),
                hold: self.clone(),
            }
        });
        self.reschedule(&mut state, (instant, now));
        renewal
    }

    /// Extends the lease. The answer counts only while the current lease is valid.
    fn on_renewed(self: Arc<Self>, sent: Timestamp, now: Timestamp, is_owner: bool) {
        let mut state = self.state();
        if state.phase != Phase::Held || state.replaced {
            return;
        }
        if !is_owner {
            return self.mark_lost(state, LostCause::NotOwner);
        }
        if state.remaining(now).is_zero() {
            return self.mark_expired(state, now);
        }
        let (engine, ttl) = (&self.context().engine, state.lease.ttl());
        let renewed = engine.lease(self.token, sent, ttl);
        state.lease.renewed(renewed, now);
        let is_whole = renewed.remaining(sent) >= Lease::from_request(sent, ttl).remaining(sent);
        if is_whole && state.renew_at.is_some() && state.scheduled_at == state.renew_at {
            return;
        }
        if state.renew {
            state.renew_at = Some(self.next_renewal_with(state.lease.remaining(now)));
        }
        self.reschedule(&mut state, (time::now(), now));
    }

    /// Schedules the next attempt. The lease stays as it is.
    fn on_renewal_failed(self: Arc<Self>, error: &EngineError) {
        let now = self.now();
        let mut state = self.state();
        if state.phase != Phase::Held || state.replaced {
            return;
        }
        let remaining = state.lease.remaining(now);
        let delay = renewal_timing::retry_delay(remaining);
        let retry = self.shared.watchdog.align_to_grid(delay);
        state.renew_at = Some(state.renew_at.map_or(retry, |at| at.min(retry)));
        self.reschedule(&mut state, (time::now(), now));
        drop(state);
        trace::renewal_failed(self.key(), error, remaining);
    }
}

impl State {
    /// Returns `true` if the rest of the lease is worth another guard.
    fn is_long_enough(&self, options: LockOptions, now: Timestamp) -> bool {
        let remaining = self.lease.remaining(now);
        match options.renew {
            true => remaining >= (options.ttl / 3).min(Duration::from_millis(500)),
            false => remaining >= options.ttl.mul_f64(0.9),
        }
    }

    /// Returns for how long the lock must stay held.
    fn rest_of_min_hold(&self) -> Option<Duration> {
        let rest = self.keep_until?.saturating_duration_since(time::now());
        (!rest.is_zero()).then_some(rest)
    }

    fn remaining(&self, now: Timestamp) -> Duration {
        let lease = self.lease.remaining(now);
        self.hard_limit
            .as_deref()
            .map_or(lease, |(limit, _)| limit.remaining(now).min(lease))
    }
}
