//! One acquire call: it tries once, or waits in the local queue.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::Attempt;
use crate::error::LockError;
use crate::lock::handoff::HoldGuard;
use crate::lock::hold::Hold;
use crate::lock::inner::ManagerInner;
use crate::lock::lease::Lease;
use crate::lock::remote_wait;
use crate::options::LockOptions;
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, elapsed_since, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

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
        match self.wait.is_zero() {
            true => self.try_once().await?.ok_or_else(|| self.busy()),
            false => self.acquire_or_wait().await,
        }
    }

    /// Tries to acquire the lock without waiting for its holder. Returns `None` if it is held. A transient
    /// error is retried within the command timeout, unless there is no connection or too few replicas.
    pub(crate) async fn try_once(&self) -> Result<Option<HoldGuard>, LockError> {
        if self.inner.queues.is_busy(&self.name) {
            return Ok(None);
        }
        let deadline = deadline_in(self.inner.context.command_timeout);
        self.try_until_answered(deadline).await
    }

    async fn acquire_or_wait(&self) -> Result<HoldGuard, LockError> {
        let ManagerInner {
            context, queues, ..
        } = &*self.inner;
        let deadline = deadline_in(self.wait);
        if !queues.contains(&self.name)
            && let Some(guard) = self.try_until_answered(deadline).await?
        {
            return Ok(guard);
        }
        let start = || remote_wait::spawn(self.inner.clone(), self.name.clone());
        let mut wait = queues.enqueue(&self.name, self.options, start);
        if let Ok(delivered) = context.io.timeout_at(deadline, &mut wait).await {
            // A queue is dropped only if the thread that serves it has ended.
            return delivered.unwrap_or_else(|| Err(context.shutting_down(&self.name)));
        }
        // Before the wait is dropped: an empty queue has no last error.
        match queues.last_error(&self.name) {
            Some(error) => Err(self.unavailable(error)),
            None => Err(self.busy()),
        }
    }

    /// Retries until the server answers. Returns `None` if another client holds the lock.
    async fn try_until_answered(&self, deadline: Instant) -> Result<Option<HoldGuard>, LockError> {
        let ManagerInner {
            context,
            shared,
            queues,
            ..
        } = &*self.inner;
        let options = self.options;
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        let mut replication_error = None;
        loop {
            if context.is_closed() {
                return Err(context.shutting_down(&self.name));
            }
            let attempt = Attempt {
                name: self.name.clone(),
                ttl: options.ttl,
                replicas: options.replicas,
            };
            let sent = context.clock.now();
            let try_deadline = deadline_in(context.command_timeout).min(deadline);
            let acquired = context
                .engine
                .acquire(&attempt, &shared.supervisor, try_deadline);
            let error = match acquired.await {
                Ok(Some(token)) => {
                    let hold = Hold::new(shared.clone(), self.name.clone(), token, options);
                    let guard = HoldGuard::new(hold, queues.clone());
                    let lease = Lease::from_request(sent, options.ttl);
                    if guard.hold().activate(options, lease) {
                        return Ok(Some(guard));
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
        }
    }

    fn busy(&self) -> LockError {
        LockError::Busy {
            key: self.inner.context.key_of(&self.name).into(),
            waited: match self.wait.is_zero() {
                true => Duration::ZERO,
                false => elapsed_since(self.started),
            },
        }
    }

    fn unavailable(&self, error: EngineError) -> LockError {
        self.inner.context.unavailable(&self.name, error)
    }
}
