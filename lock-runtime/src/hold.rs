//! One hold of a lock, from the moment it is asked for until nothing of it is left on the server.

use crate::backoff::fraction;
use crate::clock::Moment;
use crate::engine::{Claim, EngineError, Token};
use crate::lease::Lease;
use crate::manager::Shared;
use crate::trace::Trace;
use crate::{LockError, LostCause};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Hold {
    pub(crate) claim: Claim,
    pub(crate) terms: Terms,
    pub(crate) lost: Notify,
    pub(crate) trace: Trace,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

/// What was agreed for a hold when it was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) on_lost: OnLost,
}

/// What happens to a body whose lease is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLost {
    /// It is cancelled at its next await point, and the caller gets [`LockError::Lost`].
    #[default]
    Cancel,
    /// It goes on, and asks its [`LockGuard`](crate::LockGuard) before what can't be undone.
    Continue,
}

struct State {
    phase: Phase,
    lease: Lease,
    /// Where `max_hold` ends it.
    limit: Option<Lease>,
    /// When the next renewal is to be sent; none while one is under way.
    renew_at: Option<Instant>,
    /// Where the hold stands in the watchdog's agenda.
    due: Option<Instant>,
    fencing_token: Option<u64>,
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
    /// A hold about to be asked for, with a token of its own.
    pub(crate) fn new(
        shared: Arc<Shared>,
        name: Arc<str>,
        ttl: Duration,
        terms: Terms,
        trace: Trace,
    ) -> Hold {
        let now = shared.clock.now();
        Hold {
            claim: Claim {
                name,
                token: Token::fresh(),
                ttl,
            },
            terms,
            lost: Notify::new(),
            trace,
            shared,
            state: Mutex::new(State {
                phase: Phase::Asked,
                lease: Lease::exactly(now, Duration::ZERO),
                limit: None,
                renew_at: None,
                due: None,
                fencing_token: None,
            }),
        }
    }

    pub(crate) fn key(&self) -> &str {
        self.shared.key_of(&self.claim.name)
    }

    /// The lock was given to a request sent at `sent`. False if that lease is over already.
    pub(crate) fn granted(self: &Arc<Self>, sent: Moment) -> bool {
        let now = self.shared.clock.now();
        let mut state = self.state();
        state.phase = Phase::Held;
        state.lease = Lease::new(sent, self.claim.ttl);
        state.limit = self.terms.max_hold.map(|most| Lease::exactly(now, most));
        if state.remaining(now).is_zero() {
            state.phase = Phase::Ending;
            return false;
        }
        self.plan_renewal(&mut state);
        self.reschedule(&mut state, now);
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
            return self.lose(&mut state, LostCause::Gone);
        }
        if state.remaining(now).is_zero() {
            return self.expire(&mut state, now);
        }
        state.lease = Lease::new(sent, self.claim.ttl);
        self.plan_renewal(&mut state);
        self.reschedule(&mut state, now);
    }

    /// A renewal brought no answer. That costs nothing but time: the next one follows soon.
    pub(crate) fn renewal_failed(self: &Arc<Self>, error: &EngineError) {
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.phase != Phase::Held {
            return;
        }
        self.trace
            .renewal_failed(self.key(), error, state.remaining(now));
        let pause = self.claim.ttl / 40;
        state.renew_at = Some(Instant::now() + pause + fraction(pause));
        self.reschedule(&mut state, now);
    }

    /// What is to be done at `instant`, when the agenda says that something is.
    pub(crate) fn duty(self: &Arc<Self>, instant: Instant) -> Duty {
        let now = self.shared.clock.now();
        let mut state = self.state();
        if state.phase != Phase::Held {
            return Duty::Nothing;
        }
        if state.remaining(now).is_zero() {
            self.expire(&mut state, now);
            return Duty::Nothing;
        }
        let renew = state.renew_at.is_some_and(|at| at <= instant);
        if renew {
            state.renew_at = None;
        }
        self.reschedule(&mut state, now);
        if renew { Duty::Renew } else { Duty::Wait }
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
        let mut state = self.state();
        if state.phase == Phase::Held && state.remaining(now).is_zero() {
            self.expire(&mut state, now);
        }
        match state.phase {
            Phase::Lost(cause, since) => Some(self.lost_error(cause, since)),
            _ => None,
        }
    }

    /// Frees the lock and says what was found. Dropped or failed half-way, it is left to
    /// [`abandon`](Self::abandon).
    pub(crate) async fn release(&self) -> Result<(), LockError> {
        let loss = self.loss();
        if self.end().is_none() {
            return loss.map_or(Ok(()), Err);
        }
        let until = crate::io::after(self.shared.command_timeout);
        match self
            .shared
            .release(&self.claim, until, loss.is_none())
            .await
        {
            Ok(found) => {
                self.state().phase = Phase::Over;
                match loss {
                    Some(loss) => Err(loss),
                    None if found => Ok(()),
                    None => Err(self.gone()),
                }
            }
            Err(error) => Err(self.unavailable(error)),
        }
    }

    /// Has the lock freed in the background, unless it is free already.
    pub(crate) fn abandon(&self) {
        if let Some(held) = self.end() {
            self.shared.release_later(self.claim.clone(), held);
        }
        self.trace.ended();
    }

    /// Stops renewing. Says whether the lock was held until now; none if nothing of the hold is left
    /// on the server.
    fn end(&self) -> Option<bool> {
        let mut state = self.state();
        let before = state.phase;
        if let Some(due) = state.due.take() {
            self.shared.watchdog.strike(due, self);
        }
        if matches!(before, Phase::Over | Phase::Lost(LostCause::Gone, _)) {
            state.phase = Phase::Over;
            return None;
        }
        state.phase = Phase::Ending;
        Some(before == Phase::Held)
    }

    pub(crate) fn ensure(&self, ahead: Duration) -> Result<(), LockError> {
        match self.loss() {
            Some(loss) => Err(loss),
            None if self.remaining() >= ahead => Ok(()),
            None => Err(self.lost_error(LostCause::Ending, std::time::Instant::now())),
        }
    }

    /// A number greater than that of every earlier hold, the same for the whole of this one.
    pub(crate) async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(token) = self.state().fencing_token {
            return Ok(token);
        }
        if let Some(loss) = self.loss() {
            return Err(loss);
        }
        let until = Instant::now() + self.remaining();
        let token = self
            .shared
            .persist(until, |until| {
                self.shared.engine.fencing_token(&self.claim, until)
            })
            .await;
        let mut state = self.state();
        match token {
            Ok((Some(token), _)) => Ok(*state.fencing_token.get_or_insert(token)),
            Ok((None, _)) => {
                if state.phase == Phase::Held {
                    self.lose(&mut state, LostCause::Gone);
                }
                drop(state);
                Err(self.loss().unwrap_or_else(|| self.gone()))
            }
            Err(error) => {
                drop(state);
                Err(self.loss().unwrap_or_else(|| self.unavailable(error)))
            }
        }
    }

    fn expire(&self, state: &mut State, now: Moment) {
        let by_limit = state
            .limit
            .is_some_and(|limit| limit.remaining(now).is_zero());
        let cause = if by_limit {
            LostCause::MaxHold
        } else {
            LostCause::Expired
        };
        self.lose(state, cause);
    }

    fn lose(&self, state: &mut State, cause: LostCause) {
        state.phase = Phase::Lost(cause, std::time::Instant::now());
        if let Some(due) = state.due.take() {
            self.shared.watchdog.strike(due, self);
        }
        self.trace.lost(self.key(), cause);
        self.lost.notify_waiters();
    }

    /// The next renewal: after a third of the ttl, give or take a tenth, on a grid of hundredths, so
    /// that what is due at nearly the same time goes out as one batch.
    fn plan_renewal(&self, state: &mut State) {
        if !self.terms.renew {
            return;
        }
        let third = self.claim.ttl / 3;
        let wait = third.mul_f64(0.9) + fraction(third.mul_f64(0.2));
        state.renew_at = Some(self.shared.watchdog.on_grid(wait, self.claim.ttl / 100));
    }

    fn reschedule(self: &Arc<Self>, state: &mut State, now: Moment) {
        let end = Instant::now() + state.remaining(now);
        let due = state.renew_at.map_or(end, |renew| renew.min(end));
        let before = state.due.replace(due);
        self.shared.watchdog.enter(before, due, self);
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

    fn unavailable(&self, error: EngineError) -> LockError {
        self.shared.unavailable(&self.claim, error)
    }
}

impl State {
    fn remaining(&self, now: Moment) -> Duration {
        let lease = self.lease.remaining(now);
        self.limit
            .map_or(lease, |limit| limit.remaining(now).min(lease))
    }
}
