//! One acquire call: it tries once, or waits in the local queue.

mod errors;
mod nesting;
mod read_try;
mod tries;
mod turn;

use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::handoff::HoldGuard;
use crate::lock::inner::Manager;
use crate::lock::local_holds::Kept;
use crate::lock::local_queue::keeping::Availability;
use crate::lock::record::call::CallRecord;
use crate::options::LockOptions;
use crate::site::Purpose;
use crate::util::time::{deadline_after, deadline_in, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::coop::consume_budget;
use tokio::time::Instant;

pub(crate) struct Acquire {
    pub(crate) inner: Arc<Manager>,
    pub(crate) name: Arc<str>,
    pub(crate) options: LockOptions,
    /// The longest time that the call may wait; zero for a single try.
    pub(crate) wait: Duration,
    pub(crate) started: Instant,
    pub(crate) purpose: Purpose,
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
        self.let_others_run().await;
        match self
            .inner
            .queues
            .availability_for_try(&self.name, self.options.limit)
        {
            Availability::Free => {}
            Availability::Busy => return Ok(None),
            Availability::Kept(kept) => {
                if let Some(guard) = self.resume(kept).await {
                    return Ok(Some(guard));
                }
            }
        }
        let deadline = deadline_in(self.inner.context.command_timeout);
        let tried = self.try_until_reply(None, deadline).await?;
        Ok(tried.acquired().map(|(guard, _)| guard))
    }

    /// Begins the record of the call.
    pub(crate) fn record(&self) -> CallRecord<'_> {
        let times = (self.started, self.wait.is_zero());
        CallRecord::begin(&self.inner.context, &self.name, &self.purpose, times)
    }

    /// Returns `true` if this process neither holds the lock nor waits for it.
    pub(crate) fn is_new_here(&self) -> bool {
        self.inner.queues.is_unused(&self.name)
    }

    /// Tries to acquire the lock and those of that name in one request, until one of them is not available.
    /// Returns the guards of those acquired, or `None` if the first is not available.
    pub(crate) async fn try_together(
        &self,
        others: Arc<[Arc<str>]>,
        deadline: Instant,
    ) -> Result<Option<(HoldGuard, Vec<HoldGuard>)>, LockError> {
        let deadline = match self.wait.is_zero() {
            true => deadline_in(self.inner.context.command_timeout),
            false => deadline,
        };
        let tried = self.try_until_reply(Some(others), deadline).await?;
        Ok(tried.acquired())
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

    /// Lets other tasks run from time to time: a task whose calls only resume kept locks would never do so.
    /// Before the lock is taken, which the call would hold until it is polled again.
    async fn let_others_run(&self) {
        if self.options.is_lazy() {
            consume_budget().await;
        }
    }

    /// Resumes a kept lock. Returns `None` if its lease does not suit the call; then it is released.
    async fn resume(&self, kept: Kept) -> Option<HoldGuard> {
        match HoldGuard::resume(kept, &self.inner.queues, self.options) {
            Ok(guard) => Some(guard),
            Err(guard) => {
                // Boxed, since it is rare. If it fails, the lock is found held.
                let _ = Box::pin(guard.release_or_hand_off()).await;
                None
            }
        }
    }

    /// Joins a read hold of this process. A reader passes no waiter.
    fn join(&self) -> Option<HoldGuard> {
        let (context, queues) = (&self.inner.context, &self.inner.queues);
        if self.options.limit != Limit::UNLIMITED || context.is_closed() {
            return None;
        }
        let hold = queues.shared(&self.name)?;
        let joins = hold.try_join(self.options);
        joins.then(|| HoldGuard::joined(hold, queues.clone()))
    }
}
