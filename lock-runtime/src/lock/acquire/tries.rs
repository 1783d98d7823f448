//! Requests to the server for a lock that may be free.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::{Acquired, Attempt, Claim};
use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::acquire::Acquire;
use crate::lock::handoff::HoldGuard;
use crate::lock::hold::Hold;
use crate::lock::reserved_place::ReservedPlace;
use crate::util::backoff::Backoff;
use crate::util::clock::Timestamp;
use crate::util::count::Counted;
use crate::util::time::{deadline_after, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The result of a try.
pub(super) enum Tried {
    /// The lock was acquired, and the others that follow it until one is not available.
    Acquired(HoldGuard, Vec<HoldGuard>),
    /// Another client holds the lock. A place in its line may be reserved for the caller.
    Held(Option<ReservedPlace>),
}

impl Tried {
    pub(super) fn acquired(self) -> Option<(HoldGuard, Vec<HoldGuard>)> {
        match self {
            Tried::Acquired(first, others) => Some((first, others)),
            Tried::Held(_) => None,
        }
    }
}

impl Acquire {
    /// Tries to acquire the lock, and the `others` that follow it, until the server replies.
    pub(super) async fn try_until_reply(
        &self,
        others: Option<Arc<[Arc<str>]>>,
        deadline: Instant,
    ) -> Result<Tried, LockError> {
        let context = &self.inner.context;
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        let mut replication_error = None;
        let _trying = Counted::begin(&*context.holds);
        let mut begun = now();
        if deadline <= begun {
            return Err(self.busy());
        }
        loop {
            if context.is_closed() {
                return Err(context.shutting_down(&self.name));
            }
            let try_deadline = deadline_after(begun, context.command_timeout).min(deadline);
            let error = match self.try_by(try_deadline, others.clone()).await {
                Ok(Some(tried)) => return Ok(tried),
                Ok(None) if context.is_closed() => {
                    return Err(context.shutting_down(&self.name));
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            begun = now() + backoff.pause();
            let was_last = begun >= deadline;
            match error {
                Some(error) => {
                    if error.kind == EngineErrorKind::NotReplicated {
                        replication_error = Some(error.clone());
                    }
                    if was_last || self.is_final(&error) {
                        // A replication error is more specific than that of the last try, which has the least
                        // time.
                        return Err(self.unavailable(replication_error.unwrap_or(error)));
                    }
                }
                None if was_last => return Ok(Tried::Held(None)),
                None => {}
            }
            context.io.sleep_until(begun).await;
        }
    }

    /// Sends one request. Returns `None` if a lease expired before the reply arrived.
    async fn try_by(
        &self,
        deadline: Instant,
        others: Option<Arc<[Arc<str>]>>,
    ) -> Result<Option<Tried>, EngineError> {
        let (context, options) = (&self.inner.context, self.options);
        let attempt = Attempt {
            process: context.process,
            name: self.name.clone(),
            ttl: options.ttl,
            replicas: options.replicas,
            limit: options.limit,
            is_recallable: others.is_none()
                && context.is_recallable(&self.name, options)
                && !self.inner.queues.recalls.are_recent(&self.name),
            waits: !self.wait.is_zero(),
            others,
        };
        let sent = context.clock.now();
        let supervisor = &self.inner.shared.supervisor;
        let acquired = context.engine.acquire(&attempt, supervisor, deadline);
        let (token, count) = match acquired.await? {
            Some(Acquired::Locks { token, count }) => (token, count),
            Some(Acquired::Place(token)) => {
                let releaser = self.inner.shared.releaser.clone();
                let place = ReservedPlace::new(attempt.claim(token), releaser);
                return Ok(Some(Tried::Held(Some(place))));
            }
            None => return Ok(Some(Tried::Held(None))),
        };
        let claims = attempt.claims(token).take(count);
        let mut guards = claims.map(|claim| self.granted(claim, sent));
        let first = guards.next().flatten();
        let others: Vec<_> = guards.collect();
        let others: Option<Vec<_>> = others.into_iter().collect();
        Ok(match (first, others) {
            (Some(first), Some(others)) => Some(Tried::Acquired(first, others)),
            _ => None,
        })
    }

    /// Returns `true` if the call fails with that error, also if there is time for another request.
    fn is_final(&self, error: &EngineError) -> bool {
        let ends_single_try = matches!(
            error.kind,
            EngineErrorKind::NotConnected | EngineErrorKind::NotReplicated
        );
        !error.is_retryable() || (self.wait.is_zero() && ends_single_try)
    }

    /// Returns the guard of a lock that the server has granted to a request sent at `sent`. Returns `None`,
    /// and releases the lock, if its lease has ended.
    fn granted(&self, claim: Claim, sent: Timestamp) -> Option<HoldGuard> {
        let (inner, options) = (&*self.inner, self.options);
        let lease = inner.context.engine.lease(claim.token, sent, options.ttl);
        match Hold::granted(inner.shared.clone(), claim, options, lease) {
            Ok(hold) => {
                if hold.token().is_recallable() {
                    hold.begin_tenure();
                }
                // Writers may wait behind a hold from the queue, which a newcomer must not pass.
                if options.limit == Limit::UNLIMITED {
                    inner.queues.share(&hold);
                }
                Some(HoldGuard::new(hold, inner.queues.clone()))
            }
            Err(claim) => {
                inner.shared.releaser.release_in_background(claim, false);
                None
            }
        }
    }
}
