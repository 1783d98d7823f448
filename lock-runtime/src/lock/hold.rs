//! A lock that this process holds, from the moment it is asked for until nothing of it is left on
//! the server. Within the process it may pass from one guard to the next.

use crate::api::manager::Shared;
use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::error::{LockError, LostCause};
use crate::lock::lease::{HeldLease, Lease};
use crate::lock::release::Effort;
use crate::options::Terms;
use crate::trace;
use crate::util::backoff::fraction;
use crate::util::clock::Moment;
use crate::util::io_thread::{after, instant, since};
use crate::util::panics::contain;
use crate::util::sync::{Mutex, MutexGuard};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The shortest time between two tries to renew a lease, and for one of them.
const SHORTEST: Duration = Duration::from_millis(10);

pub(crate) struct Hold {
    pub(crate) name: Arc<str>,
    pub(crate) lost: Notify,
    pub(crate) shared: Arc<Shared>,
    token: Token,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    terms: Terms,
    lease: HeldLease,
    /// Where the present guard's time ends, whatever the lease.
    limit: Option<(Lease, LostCause)>,
    /// When the next renewal is to be sent; none while one is under way.
    renew_at: Option<Instant>,
    /// Where the hold stands in the watchdog's agenda.
    due: Option<Instant>,
    /// How often it has passed from guard to guard, and since when.
    passed: u32,
    since: Instant,
    /// Where the present guard's loss is told.
    context: trace::Context,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    /// The request is out.
    Asked,
    Held,
    Lost(LostCause, std::time::Instant),
    /// It is over for us; the server may not know yet.
    Ending,
    /// Nothing of it is left on the server.
    Over,
}

/// What the watchdog has to do for a hold.
pub(crate) enum Duty {
    Renew,
    Wait,
    Nothing,
}

impl Hold {
    /// A hold about to be asked for with that token.
    pub(crate) fn new(
        shared: Arc<Shared>,
        name: Arc<str>,
        token: Token,
        terms: Terms,
    ) -> Arc<Hold> {
        let now = shared.clock.now();
        Arc::new(Hold {
            name,
            lost: Notify::new(),
            shared,
            token,
            state: Mutex::new(State {
                phase: Phase::Asked,
                terms,
                lease: HeldLease::new(Lease::exactly(now, Duration::ZERO), terms.ttl),
                limit: None,
                renew_at: None,
                due: None,
                passed: 0,
                since: instant(),
                context: trace::Context::default(),
            }),
        })
    }

    pub(crate) fn key(&self) -> &str {
        self.shared.key_of(&self.name)
    }

    pub(crate) fn claim(&self) -> Claim {
        self.claim_with(self.state().terms)
    }

    /// The claim of a renewal that is about to be sent.
    pub(crate) fn renewal(&self) -> Claim {
        let mut state = self.state();
        state.lease.sends_renewal();
        self.claim_with(state.terms)
    }

    fn claim_with(&self, terms: Terms) -> Claim {
        Claim {
            name: self.name.clone(),
            token: self.token,
            ttl: terms.ttl,
            replicas: terms.replicas,
        }
    }

    /// The lock is ours for that lease. False if it is over already.
    pub(crate) fn granted(self: &Arc<Self>, terms: Terms, lease: Lease) -> bool {
        let now = self.shared.clock.now();
        if lease.remaining(now).is_zero() {
            self.state().phase = Phase::Ending;
            return false;
        }
        self.shared.waiters.held(&self.name, self.token);
        let mut state = self.state();
        match state.phase {
            Phase::Asked => {
                state.phase = Phase::Held;
                state.lease = HeldLease::new(lease, terms.ttl);
            }
            // A waiter that was offered it before has left, and renewals for that one may be out.
            Phase::Held => {}
            _ => return false,
        }
        self.begin(&mut state, terms, now)
    }

    /// Whether the lock may pass to a guard with those terms, in this process, without asking the
    /// server; if so, it has. `others`: whether other processes wait, if that is known.
    pub(crate) fn pass(self: &Arc<Self>, terms: Terms, others: Option<bool>) -> bool {
        let now = self.shared.clock.now();
        let mut state = self.state();
        let bound = self.shared.hand_over;
        let in_bounds = bound.most > 0
            && (others == Some(false)
                || (state.passed < bound.most && since(state.since) < bound.time));
        let left = state.lease.remaining(now);
        let enough = match terms.renew {
            true => left >= (terms.ttl / 3).min(Duration::from_millis(500)),
            false => left >= terms.ttl.mul_f64(0.9),
        };
        let known = terms.replicas <= state.terms.replicas;
        if state.phase != Phase::Held
            || !in_bounds
            || !enough
            || !known
            || !self.begin(&mut state, terms, now)
        {
            return false;
        }
        state.passed += 1;
        true
    }

    /// What becomes of the present guard is told there.
    pub(crate) fn told_in(&self, context: trace::Context) {
        // Dropped when the lock isn't held any more: a subscriber may be called.
        let _before = std::mem::replace(&mut self.state().context, context);
    }

    /// A guard's time begins. Returns `false`, and changes nothing, if the lease can't have that ttl.
    fn begin(self: &Arc<Self>, state: &mut State, terms: Terms, now: Moment) -> bool {
        let left = state.lease.remaining(now);
        if !state.lease.agree(terms.ttl, now) {
            return false;
        }
        state.terms = terms;
        let by_ttl = (!terms.renew).then(|| (Lease::new(now, terms.ttl), LostCause::Expired));
        let by_max = terms
            .max_hold
            .map(|most| (Lease::exactly(now, most), LostCause::MaxHold));
        state.limit = [by_ttl, by_max]
            .into_iter()
            .flatten()
            .min_by_key(|(limit, _)| limit.remaining(now));
        // Without renewal, only a lease that is not the one agreed is renewed: that of a grant is
        // shorter, and that of the guard before may be longer.
        let agreed = Lease::new(now, terms.ttl).remaining(now);
        let slack = terms.ttl / 10 + Duration::from_millis(5);
        if left > agreed + slack {
            state.renew_at = Some(instant());
        } else if state.renew_at.is_none() && (terms.renew || left + slack < agreed) {
            self.plan_renewal(state, now);
        }
        self.reschedule(state, now);
        true
    }

    /// The lock was somebody else's: nothing of this hold is on the server.
    pub(crate) fn refused(&self) {
        self.state().phase = Phase::Over;
    }

    /// The answer to a renewal sent at `sent`. It counts only while the present lease runs.
    pub(crate) fn renewed(self: &Arc<Self>, sent: Moment, ours: bool) {
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.phase != Phase::Held {
            return;
        }
        if !ours {
            return self.lose(state, LostCause::Gone);
        }
        if state.remaining(now).is_zero() {
            return self.expire(state, now);
        }
        state.lease.renewed(sent, now);
        if state.terms.renew {
            self.plan_renewal(&mut state, now);
        }
        self.reschedule(&mut state, now);
    }

    /// A renewal brought no answer. That costs nothing but time: the next one follows after a part of
    /// what is left, so that there are several more before the deadline.
    pub(crate) fn renewal_failed(self: &Arc<Self>, error: &EngineError) {
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.phase != Phase::Held {
            return;
        }
        let left = state.lease.remaining(now);
        let pause = (left / 8).max(SHORTEST);
        let retry = self.shared.watchdog.on_grid(pause + fraction(pause));
        state.renew_at = Some(state.renew_at.map_or(retry, |at| at.min(retry)));
        self.reschedule(&mut state, now);
        drop(state);
        trace::renewal_failed(self.key(), error, left);
    }

    /// What is to be done at `instant`, when the agenda says that something is.
    pub(crate) fn duty(self: &Arc<Self>, instant: Instant) -> Duty {
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.phase != Phase::Held {
            return Duty::Nothing;
        }
        if state.remaining(now).is_zero() {
            self.expire(state, now);
            return Duty::Nothing;
        }
        let renew = state.renew_at.is_some_and(|at| at <= instant);
        if renew {
            state.renew_at = None;
        }
        self.reschedule(&mut state, now);
        if renew { Duty::Renew } else { Duty::Wait }
    }

    /// How long a renewal sent now may take. One that is not answered leaves time for several more.
    pub(crate) fn patience(&self) -> Duration {
        let now = self.shared.clock.now();
        let left = self.state().lease.remaining(now);
        let part = (left / 3).max(SHORTEST).min(left);
        part.min(self.shared.command_timeout)
    }

    #[cfg(test)]
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        self.state().renew_at
    }

    /// How long the hold can still be proven; zero once it is lost or over.
    pub(crate) fn remaining(&self) -> Duration {
        let now = self.shared.clock.now();
        let state = self.state();
        match state.phase {
            Phase::Held => state.remaining(now),
            _ => Duration::ZERO,
        }
    }

    /// The loss of the lease, found out by asking the clock if need be.
    pub(crate) fn loss(&self) -> Option<LockError> {
        let now = self.shared.clock.now();
        let state = self.state();
        let phase = match state.phase {
            Phase::Held if state.remaining(now).is_zero() => {
                self.expire(state, now);
                self.state().phase
            }
            phase => phase,
        };
        match phase {
            Phase::Lost(cause, since) => Some(self.lost_error(cause, since)),
            _ => None,
        }
    }

    pub(crate) fn ensure(&self, ahead: Duration) -> Result<(), LockError> {
        match self.loss() {
            Some(loss) => Err(loss),
            None if self.remaining() >= ahead => Ok(()),
            None => Err(self.lost_error(LostCause::Ending, std::time::Instant::now())),
        }
    }

    /// Frees the lock and says what was found. Dropped or failed half-way, it is left to
    /// [`abandon`](Self::abandon).
    pub(crate) async fn release(&self) -> Result<(), LockError> {
        let loss = self.loss();
        if self.end().is_none() {
            return loss.map_or(Ok(()), Err);
        }
        let claim = self.claim();
        let until = after(self.shared.command_timeout);
        let effort = Effort::InCall { until };
        match self.shared.release(&claim, effort, loss.is_none()).await {
            Ok(found) => {
                self.state().phase = Phase::Over;
                match loss {
                    Some(loss) => Err(loss),
                    None if found => Ok(()),
                    None => Err(self.gone()),
                }
            }
            Err(error) => Err(self.shared.unavailable(&self.name, error)),
        }
    }

    /// Has the lock freed in the background, unless it is free already.
    pub(crate) fn abandon(&self) {
        if let Some(held) = self.end() {
            self.shared.release_later(self.claim(), held);
        }
    }

    /// Stops renewing. Says whether the lock was held until now; none if nothing of the hold is left
    /// on the server.
    fn end(&self) -> Option<bool> {
        let mut state = self.state();
        let before = state.phase;
        self.leave_agenda(&mut state);
        if before == Phase::Over {
            return None;
        }
        state.phase = Phase::Ending;
        let _context = std::mem::take(&mut state.context);
        drop(state);
        self.shared.waiters.vacated(&self.name, self.token);
        Some(before == Phase::Held)
    }

    /// A number greater than that of every earlier hold.
    pub(crate) async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(loss) = self.loss() {
            return Err(loss);
        }
        let claim = self.claim();
        let until = instant() + self.remaining();
        let token = self
            .shared
            .persist(Effort::InCall { until }, |until| {
                self.shared.engine.fencing_token(&claim, until)
            })
            .await;
        match token {
            // A number is one of ours only if the lock still was when we had it.
            Ok((Some(token), _)) => self.loss().map_or(Ok(token), Err),
            Ok((None, _)) => {
                self.is_gone();
                Err(self.loss().unwrap_or_else(|| self.gone()))
            }
            Err(error) => Err(self
                .loss()
                .unwrap_or_else(|| self.shared.unavailable(&self.name, error))),
        }
    }

    /// The server says that the lock isn't ours.
    fn is_gone(&self) {
        let state = self.state();
        if state.phase == Phase::Held {
            self.lose(state, LostCause::Gone);
        }
    }

    fn expire(&self, state: MutexGuard<'_, State>, now: Moment) {
        let cause = match state.limit {
            Some((limit, cause)) if limit.remaining(now).is_zero() => cause,
            _ => LostCause::Expired,
        };
        self.lose(state, cause);
    }

    fn lose(&self, mut state: MutexGuard<'_, State>, cause: LostCause) {
        state.phase = Phase::Lost(cause, std::time::Instant::now());
        self.leave_agenda(&mut state);
        let context = std::mem::take(&mut state.context);
        drop(state);
        self.shared.waiters.vacated(&self.name, self.token);
        // Wakers are those of the caller's executor.
        contain(|| self.lost.notify_waiters());
        trace::lost(&context, self.key(), cause);
    }

    fn leave_agenda(&self, state: &mut State) {
        state.renew_at = None;
        if let Some(due) = state.due.take() {
            self.shared.watchdog.strike(due, self);
        }
    }

    /// The next renewal: after a third of what is left, give or take a tenth.
    fn plan_renewal(&self, state: &mut State, now: Moment) {
        let third = state.lease.remaining(now) / 3;
        let wait = third.mul_f64(0.9) + fraction(third.mul_f64(0.2));
        state.renew_at = Some(self.shared.watchdog.on_grid(wait));
    }

    fn reschedule(self: &Arc<Self>, state: &mut State, now: Moment) {
        let end = instant() + state.remaining(now);
        let due = state.renew_at.map_or(end, |renew| renew.min(end));
        let before = state.due.replace(due);
        if before != Some(due) {
            self.shared.watchdog.enter(before, due, self);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost_error(&self, cause: LostCause, since: std::time::Instant) -> LockError {
        LockError::Lost {
            key: self.key().into(),
            cause,
            since,
        }
    }

    fn gone(&self) -> LockError {
        self.lost_error(LostCause::Gone, std::time::Instant::now())
    }
}

impl State {
    fn remaining(&self, now: Moment) -> Duration {
        let lease = self.lease.remaining(now);
        self.limit
            .map_or(lease, |(limit, _)| limit.remaining(now).min(lease))
    }
}
