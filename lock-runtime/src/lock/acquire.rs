//! One acquire call: it tries once, or waits in the local queue.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::{Acquired, Attempt, Claim};
use crate::error::{Holder, LockError};
use crate::limit::Limit;
use crate::lock::handoff::{HoldGuard, Turn, deliver_joined};
use crate::lock::hold::Hold;
use crate::lock::inner::ManagerInner;
use crate::lock::local_queue::{NotQueued, Place};
use crate::lock::remote_wait;
use crate::lock::scope::OuterHold;
use crate::options::LockOptions;
use crate::util::backoff::Backoff;
use crate::util::clock::Timestamp;
use crate::util::count::Counted;
use crate::util::time::{deadline_after, deadline_in, elapsed_since, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long readers wait for the result of another reader's try. It may need more than they do, and its caller may poll
/// it late.
const READ_TRY: Duration = Duration::from_millis(50);

pub(crate) struct Acquire {
    pub(crate) inner: Arc<ManagerInner>,
    pub(crate) name: Arc<str>,
    pub(crate) options: LockOptions,
    /// The longest time that the call may wait; zero for a single try.
    pub(crate) wait: Duration,
    pub(crate) started: Instant,
}

impl Acquire {
    pub(crate) async fn acquire(&self) -> Result<HoldGuard, LockError> {
        self.check_nesting()?;
        let deadline = deadline_after(self.started, self.wait);
        self.acquire_until(deadline).await
    }

    /// Acquires the lock by the deadline; with no time to wait, tries once.
    pub(crate) async fn acquire_until(&self, deadline: Instant) -> Result<HoldGuard, LockError> {
        if self.wait.is_zero() {
            return self.try_once().await?.ok_or_else(|| self.busy());
        }
        // Boxed: few calls are nested.
        if self.options.reentrant
            && let Some(guard) = Box::pin(self.acquire_within_body(deadline)).await?
        {
            return Ok(guard);
        }
        self.acquire_or_wait(false, deadline).await
    }

    /// Fails if the running body holds the lock, and would wait for its own end.
    pub(crate) fn check_nesting(&self) -> Result<(), LockError> {
        // A body that continues after a loss holds nothing.
        let Some(outer) = self
            .outer_hold()
            .filter(|outer| outer.hold.check_lost().is_none())
        else {
            return Ok(());
        };
        let covers = outer.covers(self.options.limit);
        if covers && self.options.reentrant {
            return Ok(());
        }
        if self.wait.is_zero() {
            return Err(self.busy());
        }
        Err(LockError::WouldDeadlock {
            key: self.inner.context.key_of(&self.name).into(),
            upgrade: !covers,
        })
    }

    fn outer_hold(&self) -> Option<OuterHold> {
        OuterHold::find(self.inner.shared.manager(), &self.name)
    }

    /// Joins the hold under which the running body runs. Its nested calls take turns; those that read have theirs
    /// together.
    async fn acquire_within_body(&self, deadline: Instant) -> Result<Option<HoldGuard>, LockError> {
        let Some(outer) = self.outer_hold() else {
            return Ok(None);
        };
        let (io, turns) = (&self.inner.context.io, outer.turns());
        let turn = match self.options.limit == Limit::UNLIMITED {
            true => io
                .timeout_at(deadline, turns.read_owned())
                .await
                .map(Turn::new),
            false => io
                .timeout_at(deadline, turns.write_owned())
                .await
                .map(Turn::new),
        };
        let turn = turn.map_err(|_| self.busy())?;
        if !outer.hold.share() {
            let loss = outer.hold.check_lost();
            return loss.map_or_else(|| Err(self.busy()), Err);
        }
        let guard = HoldGuard::joined(outer.hold, self.inner.queues.clone());
        Ok(Some(guard.with_turn(turn)))
    }

    /// Tries to acquire the lock without waiting for its holder. Returns `None` if it is held. A transient
    /// error is retried within the command timeout, unless there is no connection or too few replicas.
    pub(crate) async fn try_once(&self) -> Result<Option<HoldGuard>, LockError> {
        if let Some(outer) = self.outer_hold() {
            let shares = self.options.reentrant && outer.covers(self.options.limit);
            // Boxed: few calls are nested.
            return match shares {
                true => match Box::pin(self.acquire_within_body(now())).await {
                    // Another nested call has its turn.
                    Err(error) if error.is_busy() => Ok(None),
                    acquired => acquired,
                },
                false => Ok(None),
            };
        }
        if let Some(guard) = self.join() {
            return Ok(Some(guard));
        }
        if self.inner.context.is_closed() {
            return Err(self.inner.context.shutting_down(&self.name));
        }
        if self.inner.queues.is_busy(&self.name, self.options.limit) {
            return Ok(None);
        }
        let deadline = deadline_in(self.inner.context.command_timeout);
        let acquired = self.try_until_answered(None, deadline).await?;
        Ok(acquired.map(|(guard, _)| guard))
    }

    /// Returns `true` if this process neither holds the lock nor waits for it.
    pub(crate) fn is_new_here(&self) -> bool {
        self.inner.queues.is_unused(&self.name)
    }

    /// Tries to acquire the lock and those of that name in one request, until one of them is not available. Returns
    /// the guards of those acquired, or `None` if the first is not available.
    pub(crate) async fn try_together(
        &self,
        others: Arc<[Arc<str>]>,
        deadline: Instant,
    ) -> Result<Option<(HoldGuard, Vec<HoldGuard>)>, LockError> {
        let deadline = match self.wait.is_zero() {
            true => deadline_in(self.inner.context.command_timeout),
            false => deadline,
        };
        self.try_until_answered(Some(others), deadline).await
    }

    /// Joins a read hold of this process. A reader passes no waiter.
    fn join(&self) -> Option<HoldGuard> {
        let ManagerInner {
            context,
            queues,
            read_holds,
            ..
        } = &*self.inner;
        if self.options.limit != Limit::UNLIMITED
            || context.is_closed()
            || queues.has_waiters(&self.name)
        {
            return None;
        }
        let hold = read_holds.join(&self.name, self.options)?;
        Some(HoldGuard::joined(hold, queues.clone()))
    }

    /// Acquires the lock, or waits for it. A call that has tried only waits.
    pub(crate) async fn acquire_or_wait(
        &self,
        mut has_tried: bool,
        deadline: Instant,
    ) -> Result<HoldGuard, LockError> {
        loop {
            if let Some(guard) = self.wait_for_turn(has_tried, deadline).await? {
                return Ok(guard);
            }
            if now() >= deadline {
                return Err(self.busy());
            }
            has_tried = false;
        }
    }

    /// Does the same, until it is the call's turn. Returns `None` if the lock was not picked up in time, since the call
    /// was not polled.
    async fn wait_for_turn(
        &self,
        has_tried: bool,
        deadline: Instant,
    ) -> Result<Option<HoldGuard>, LockError> {
        let ManagerInner {
            context, queues, ..
        } = &*self.inner;
        let limit = self.options.limit;
        let reads = limit == Limit::UNLIMITED;
        let start = || remote_wait::spawn(self.inner.clone(), self.name.clone(), limit);
        let mut wait = loop {
            if !has_tried && let Some(guard) = self.join() {
                return Ok(Some(guard));
            }
            let may_try = !has_tried && queues.may_try(&self.name, limit);
            // Of several readers at a time one tries, and lets the others join its hold.
            let read_try = match may_try && reads {
                true => ReadTry::begin(&self.inner, &self.name),
                false => None,
            };
            if (may_try && !reads || read_try.is_some())
                && let Some((guard, _)) = self.try_until_answered(None, deadline).await?
            {
                if let Some(mut read_try) = read_try {
                    read_try.end(Some(guard.hold()));
                }
                return Ok(Some(guard));
            }
            let place = match &read_try {
                Some(read_try) => Place::Ticket(read_try.ticket),
                None if reads && !has_tried => Place::BackUnlessFree,
                None => Place::Back,
            };
            match queues.enqueue(&self.name, self.options, (place, deadline), start) {
                Ok(wait) => break wait,
                // What was in the way has just ended: another reader's try, or a hold.
                Err(NotQueued::MayTry) if now() < deadline => {}
                Err(NotQueued::MayTry) => return Err(self.busy()),
                Err(NotQueued::TooMany(waiting)) => {
                    return Err(too_many(&self.inner, &self.name, limit, waiting));
                }
            }
        };
        let mut next = match wait.is_served() {
            true => deadline.min(deadline_in(READ_TRY)),
            false => deadline,
        };
        loop {
            if let Ok(delivered) = context.io.timeout_at(next, &mut wait).await {
                return delivered.transpose();
            }
            if next >= deadline {
                break;
            }
            queues.wait_without_try(&self.name, limit, start);
            next = deadline;
        }
        // Before the wait is dropped: an empty queue has no last error.
        match queues.last_error(&self.name, limit) {
            Some(error) => Err(self.unavailable(error)),
            None => Err(self.busy()),
        }
    }

    /// Retries until the server answers. Returns the guard of the lock, and those of the `others` that follow it until
    /// one is not available; `None` if another client holds the lock.
    async fn try_until_answered(
        &self,
        others: Option<Arc<[Arc<str>]>>,
        deadline: Instant,
    ) -> Result<Option<(HoldGuard, Vec<HoldGuard>)>, LockError> {
        let ManagerInner {
            context, shared, ..
        } = &*self.inner;
        let options = self.options;
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
            let attempt = Attempt {
                process: context.process,
                name: self.name.clone(),
                ttl: options.ttl,
                replicas: options.replicas,
                limit: options.limit,
                waits: !self.wait.is_zero(),
                others: others.clone(),
            };
            let sent = context.clock.now();
            let try_deadline = deadline_after(begun, context.command_timeout).min(deadline);
            let acquired = context
                .engine
                .acquire(&attempt, &shared.supervisor, try_deadline);
            let error = match acquired.await {
                Ok(Some(Acquired { token, count })) => {
                    let claims = attempt.claims(token).take(count);
                    let mut guards = claims.map(|claim| self.granted(claim, sent));
                    let first = guards.next().flatten();
                    let others: Vec<_> = guards.collect();
                    let others: Option<Vec<_>> = others.into_iter().collect();
                    if let (Some(first), Some(others)) = (first, others) {
                        return Ok(Some((first, others)));
                    }
                    if context.is_closed() {
                        return Err(context.shutting_down(&self.name));
                    }
                    // The lease expired before the answer arrived.
                    None
                }
                Ok(None) => return Ok(None),
                Err(error) => Some(error),
            };
            let next = now() + backoff.pause();
            if let Some(error) = error {
                let single_try_failed = self.wait.is_zero()
                    && matches!(
                        error.kind,
                        EngineErrorKind::NotConnected | EngineErrorKind::NotReplicated
                    );
                let transient = error.is_retryable();
                if error.kind == EngineErrorKind::NotReplicated {
                    replication_error = Some(error.clone());
                }
                if single_try_failed || next >= deadline || !transient {
                    // A replication error is more specific than that of the last try, which has the least time.
                    return Err(self.unavailable(replication_error.unwrap_or(error)));
                }
            } else if next >= deadline {
                return Ok(None);
            }
            context.io.sleep_until(next).await;
            begun = next;
        }
    }

    /// Returns the guard of a lock that the server has granted to a request sent at `sent`. Returns `None`, and releases
    /// the lock, if its lease has ended.
    fn granted(&self, claim: Claim, sent: Timestamp) -> Option<HoldGuard> {
        let (inner, options) = (&*self.inner, self.options);
        let lease = inner.context.engine.lease(claim.token, sent, options.ttl);
        match Hold::granted(inner.shared.clone(), claim, options, lease) {
            Ok(hold) => {
                inner.read_holds.publish(&hold);
                Some(HoldGuard::new(hold, inner.queues.clone()))
            }
            Err(claim) => {
                inner.shared.releaser.release_in_background(claim, false);
                None
            }
        }
    }

    /// Returns the error of a call while the lock is held, with who holds it as far as this process knows.
    pub(crate) fn busy(&self) -> LockError {
        let limit = self.options.limit;
        let outer = self.outer_hold();
        let is_in_the_way = |outer: &OuterHold| {
            let joins = self.options.reentrant && outer.covers(limit);
            !joins && outer.hold.check_lost().is_none()
        };
        LockError::Busy {
            holder: match outer.is_some_and(|outer| is_in_the_way(&outer)) {
                true => Holder::ThisTask,
                false => holder(&self.inner, &self.name, limit),
            },
            key: self.inner.context.key_of(&self.name).into(),
            waited: match self.wait.is_zero() {
                true => Duration::ZERO,
                false => elapsed_since(self.started),
            },
            waiting: None,
        }
    }

    fn unavailable(&self, error: EngineError) -> LockError {
        self.inner.context.unavailable(&self.name, error)
    }
}

/// The try of one reader, whose result serves the readers that wait for it. Dropping it ends the try.
struct ReadTry<'a> {
    inner: &'a Arc<ManagerInner>,
    name: &'a Arc<str>,
    ticket: u64,
    ended: bool,
}

impl<'a> ReadTry<'a> {
    /// Returns `None` if another reader tries already.
    fn begin(inner: &'a Arc<ManagerInner>, name: &'a Arc<str>) -> Option<ReadTry<'a>> {
        let ticket = inner.queues.begin_read_try(name)?;
        Some(ReadTry {
            inner,
            name,
            ticket,
            ended: false,
        })
    }

    /// Ends the try: the readers that wait for its result join that hold, or wait for the server.
    fn end(&mut self, hold: Option<&Arc<Hold>>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let (inner, name) = (self.inner, self.name);
        let may_join = |options| hold.is_some_and(|hold| hold.try_join(options));
        let start = || remote_wait::spawn(inner.clone(), name.clone(), Limit::UNLIMITED);
        let followers = inner
            .queues
            .end_read_try(name, hold.is_some(), may_join, start);
        if let Some(hold) = hold {
            deliver_joined(&inner.queues, followers.joined, hold);
        }
        for (waiter, waiting) in followers.refused {
            let refused = too_many(inner, name, Limit::UNLIMITED, waiting);
            waiter.deliver(Err(refused));
        }
    }
}

impl Drop for ReadTry<'_> {
    fn drop(&mut self) {
        self.end(None);
    }
}

/// Returns who is in the way of a caller with that limit, as far as this process knows.
fn holder(inner: &ManagerInner, name: &str, limit: Limit) -> Holder {
    if inner.shared.kept.exclude(name, limit) {
        return Holder::ThisProcess;
    }
    match inner.queues.holder(name, limit) {
        Holder::Process { id, .. } if id == inner.context.process => Holder::ThisProcess,
        holder => holder,
    }
}

/// Returns the error of a call that does not wait, since so many callers wait already.
fn too_many(inner: &ManagerInner, name: &str, limit: Limit, waiting: usize) -> LockError {
    LockError::Busy {
        key: inner.context.key_of(name).into(),
        waited: Duration::ZERO,
        waiting: Some(u32::try_from(waiting).unwrap_or(u32::MAX)),
        holder: holder(inner, name, limit),
    }
}
