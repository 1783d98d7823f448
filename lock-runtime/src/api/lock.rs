//! The builder of an acquire call.

use crate::api::guard::LockGuard;
use crate::api::guarded::Guarded;
use crate::error::LockError;
use crate::lock::acquire::Acquire;
use crate::lock::inner::ManagerInner;
use crate::options::{LockOptions, OnLost, ReleaseMode, validate_duration, validate_key};
use crate::util::time::now;
use std::sync::Arc;
use std::time::Duration;

/// A lock with its options, before it is acquired. [`LockManager::lock`](crate::LockManager::lock) creates
/// one.
///
/// ```
/// # use lock_runtime::{LockError, LockManager};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// # let locks = LockManager::connect("memory://").await?;
/// let receipt = locks
///     .lock("order:42")
///     .ttl(Duration::from_secs(30))
///     .wait(Duration::from_secs(2))
///     .run(async |_| "shipped")
///     .await?;
/// assert_eq!(receipt, "shipped");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock is not acquired before `acquire`, `try_acquire` or `run`"]
pub struct Lock {
    inner: Option<Arc<ManagerInner>>,
    template: &'static str,
    key: String,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    renew: bool,
    max_hold: Option<Duration>,
    on_lost: OnLost,
    release: Option<ReleaseMode>,
    replicas: Option<u32>,
}

impl Lock {
    pub(crate) fn new(
        inner: Option<Arc<ManagerInner>>,
        template: &'static str,
        key: String,
    ) -> Lock {
        Lock {
            inner,
            template,
            key,
            ttl: None,
            wait: None,
            renew: true,
            max_hold: None,
            on_lost: OnLost::Cancel,
            release: None,
            replicas: None,
        }
    }

    /// Sets the lease: how long the lock outlives a crashed holder. A live holder renews it after a third of
    /// this time. From 10 ms to 100 years; the manager's default is 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long to wait for the lock, including outages of the server. [`Duration::ZERO`] tries once,
    /// [`Duration::MAX`] waits forever. The manager's default is 5 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Limits the time for which the lock may be held. After it, the lease is no longer renewed and counts as
    /// lost. From 10 ms to 100 years; by default there is no limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// With `false`, the lease is not renewed and ends after the ttl. By default it is renewed while the
    /// guard lives.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// Sets how [`run`](Self::run) reacts when the lease is lost. By default it cancels the body.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Sets how [`run`](Self::run) releases the lock: with or without waiting for the server's confirmation. The
    /// manager's default is [`ReleaseMode::Confirmed`].
    pub fn release(mut self, release: ReleaseMode) -> Self {
        self.release = Some(release);
        self
    }

    /// Sets how many replicas must acknowledge the acquisition, and each renewal, before it counts. The
    /// manager's default is 0.
    ///
    /// A Redis master replies before its replicas have received a lock. If it fails at that moment, a
    /// promoted replica grants the lock a second time. With one replica or more this is unlikely, since a
    /// failover prefers the replica with the most data, but it remains possible: `WAIT` confirms that
    /// replicas have the lock, not that one of these will be promoted. Where two holders would do harm, use
    /// the [`fencing_token`](crate::LockGuard::fencing_token).
    ///
    /// Each acquisition and renewal costs one more round trip, from the master to its replicas. While too few
    /// replicas acknowledge, the lock is [`Unavailable`](LockError::Unavailable), and a held lock is lost
    /// when its lease expires. In a quorum the number applies to the replicas of each member, and a member
    /// with too few acknowledgments does not count. The embedded engine has no replicas and ignores this.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Acquires the lock, waiting for it for at most [`wait`](Self::wait).
    ///
    /// Cancel safe: dropping the future leaves the queue, and releases the lock if it was granted already.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if the lock was held for the whole wait, [`LockError::Unavailable`] if the server
    /// rejected the request or gave no usable answer in that time, [`LockError::InvalidKey`] and
    /// [`LockError::InvalidOption`] before anything is sent, [`LockError::ShuttingDown`] after
    /// [`shutdown`](crate::LockManager::shutdown).
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let template = self.template;
        let acquire = self.into_acquire()?;
        let guard = acquire.acquire().await?;
        Ok(LockGuard::new(guard, &acquire, template))
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
        let template = self.template;
        let acquire = self.wait(Duration::ZERO).into_acquire()?;
        let guard = acquire.try_once().await?;
        Ok(guard.map(|guard| LockGuard::new(guard, &acquire, template)))
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

    fn into_acquire(self) -> Result<Acquire, LockError> {
        let inner = self.inner.ok_or(LockError::NotInitialized)?;
        let defaults = &inner.context.defaults;
        let ttl = self.ttl.unwrap_or(defaults.ttl);
        validate_key(&self.key)?;
        validate_duration("ttl", ttl)?;
        if let Some(max_hold) = self.max_hold {
            validate_duration("max_hold", max_hold)?;
        }
        Ok(Acquire {
            name: inner.context.name_of(&self.key),
            options: LockOptions {
                ttl,
                renew: self.renew,
                max_hold: self.max_hold,
                on_lost: self.on_lost,
                release: self.release.unwrap_or(defaults.release),
                replicas: self.replicas.unwrap_or(defaults.replicas),
            },
            wait: self.wait.unwrap_or(defaults.wait),
            started: now(),
            inner,
        })
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("key", &self.key)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
