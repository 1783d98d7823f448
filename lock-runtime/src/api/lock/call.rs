//! Acquiring a lock with its options.

use crate::api::guard::LockGuard;
use crate::api::guarded::Guarded;
use crate::api::lock::{Keys, Lock};
use crate::error::LockError;
use crate::lock::acquire::Acquire;
use crate::lock::acquire_all::{self, acquire_all};
use crate::lock::context::Context;
use crate::lock::inner::Manager;
use crate::lock::record::{self, call::CallRecord};
use crate::options::{
    LockOptions, no_keys, validate_duration, validate_keys, validate_limit, validate_min_hold,
    validate_release,
};
use crate::util::time::{deadline_after, now};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A validated acquire call.
enum Call {
    One(Acquire),
    All(Vec<Acquire>),
}

/// The wait for a connection.
type Connected<'a> = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send + 'a>>;

impl Lock {
    /// Acquires the lock, waiting for it for at most [`wait`](Self::wait).
    ///
    /// Cancel safe: dropping the future leaves the queue, and releases the lock if it was granted already.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if the lock was held for the whole wait, [`LockError::Unavailable`] if the server
    /// rejected the request or gave no usable reply in that time, [`LockError::InvalidKey`] and
    /// [`LockError::InvalidOption`] before anything is sent, [`LockError::Unsupported`] if this kind of
    /// server lacks an option, [`LockError::WouldDeadlock`] if the body that calls this holds the lock,
    /// [`LockError::ShuttingDown`] after [`shutdown`](crate::LockManager::shutdown).
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let started = now();
        if let Some(connected) = self.first_connection(started) {
            connected.await?;
        }
        match self.into_call(started)? {
            Call::One(acquire) => {
                let record = acquire.record();
                let guard = record.end(acquire.acquire().await)?;
                Ok(LockGuard::new(guard, &acquire))
            }
            Call::All(calls) => Box::pin(acquire_several(calls)).await,
        }
    }

    /// Acquires the lock if it is free. Returns `None` if it is held, or if other callers of this process
    /// wait for it. Ignores [`wait`](Self::wait); the command timeout bounds the call. Cancel safe.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let Some(_guard) = locks.lock("nightly").try_acquire().await? else {
    ///     return Ok(()); // another replica does it
    /// };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), except for `Busy`.
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        let (lock, started) = (self.wait(Duration::ZERO), now());
        if let Some(connected) = lock.first_connection(started) {
            connected.await?;
        }
        match lock.into_call(started)? {
            Call::One(acquire) => {
                let record = acquire.record();
                let guard = record.end_try(acquire.try_once().await)?;
                Ok(guard.map(|guard| LockGuard::new(guard, &acquire)))
            }
            Call::All(calls) => match Box::pin(acquire_several(calls)).await {
                Ok(guard) => Ok(Some(guard)),
                Err(error) if error.is_busy() => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// Acquires the lock, runs the body under it, releases the lock, and returns the body's value. When the
    /// lease is lost, the body is canceled at its next await point.
    ///
    /// Equivalent to the attribute, for a block instead of a function. The lock is released before this
    /// returns, and also if the body panics or the future is dropped. An error of the release never replaces
    /// the body's value.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and [`LockError::Lost`] if the body was canceled.
    pub async fn run<T>(self, body: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        Guarded::new(&guard, body(&guard)).await
    }

    /// Returns the wait for the first connection of a manager that started without one: only then it is known
    /// which options the server supports. `None` if there is nothing to wait for.
    fn first_connection(&self, started: Instant) -> Option<Connected<'_>> {
        let context = &self.inner.as_ref()?.context;
        let wait = self.wait.unwrap_or(context.defaults.wait);
        let connected = context
            .engine
            .first_connection(deadline_after(started, wait))?;
        // A call that is invalid anyway does not wait.
        self.validated_options(context, self.keys()).ok()?;
        let (name, times) = (
            context.name_of(self.keys().first()?),
            (started, wait.is_zero()),
        );
        Some(Box::pin(async move {
            let record = CallRecord::begin(context, &name, &self.purpose, times);
            let connected = match context.is_closed() {
                true => Ok(()),
                false => connected.await,
            };
            record.end(match context.is_closed() {
                true => Err(context.shutting_down(&name)),
                false => connected.map_err(|error| context.unavailable(&name, error)),
            })
        }))
    }

    fn keys(&self) -> &[String] {
        match &self.keys {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::All(keys) => keys,
        }
    }

    fn into_call(mut self, started: Instant) -> Result<Call, LockError> {
        let inner = self.inner.take().ok_or(LockError::NotInitialized)?;
        let keys = self.keys();
        let validated = self.validated_options(&inner.context, keys);
        let options = validated.inspect_err(|error| {
            let key = keys.first().map_or("", String::as_str);
            record::call::rejected(&inner.context, key, &self.purpose, error);
        })?;
        let wait = self.wait.unwrap_or(inner.context.defaults.wait);
        let call = |inner: Arc<Manager>, key: &str| Acquire {
            name: inner.context.name_of(key),
            options,
            wait,
            started,
            purpose: self.purpose.clone(),
            inner,
        };
        Ok(match keys {
            [key] => Call::One(call(inner, key)),
            keys => {
                let calls = keys.iter().map(|key| call(inner.clone(), key));
                Call::All(acquire_all::in_order(calls.collect()))
            }
        })
    }

    fn validated_options(
        &self,
        context: &Context,
        keys: &[String],
    ) -> Result<LockOptions, LockError> {
        validate_keys(keys)?;
        let defaults = &context.defaults;
        let ttl = self.ttl.unwrap_or(defaults.ttl);
        validate_duration("ttl", ttl)?;
        if let Some(max_hold) = self.max_hold {
            validate_duration("max_hold", max_hold)?;
        }
        validate_min_hold(self.min_hold, self.max_hold, (ttl, self.renew))?;
        let limit = validate_limit(self.read, self.permits)?;
        let options = LockOptions {
            limit,
            ttl,
            renew: self.renew,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            max_waiters: self.max_waiters,
            reentrant: self.reentrant,
            is_of_several: keys.len() > 1,
            on_lost: self.on_lost,
            release: self.release.unwrap_or(defaults.release),
            replicas: self.replicas.unwrap_or(defaults.replicas),
        };
        validate_release(&options)?;
        for key in keys {
            context.engine.validate(key, &options)?;
        }
        Ok(options)
    }
}

/// Acquires the lock like [`acquire`](Lock::acquire), with one allocation more.
///
/// ```
/// # use lock_runtime::{LockError, LockManager};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// # let locks = LockManager::connect("memory://").await?;
/// let guard = locks.lock("order:42").await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
impl IntoFuture for Lock {
    type Output = Result<LockGuard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

async fn acquire_several(calls: Vec<Acquire>) -> Result<LockGuard, LockError> {
    let first = calls.first().ok_or_else(no_keys)?;
    let mut guards = first.record().end(acquire_all(&calls).await)?;
    let others = guards.split_off(1.min(guards.len()));
    let guard = guards.pop().ok_or_else(no_keys)?;
    Ok(LockGuard::of_several(guard, others, first))
}
