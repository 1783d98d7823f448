//! A lock that is to be taken.

use crate::api::guard::LockGuard;
use crate::api::guarded::Guarded;
use crate::error::LockError;
use crate::lock::acquire::Acquire;
use crate::lock::inner::ManagerInner;
use crate::options::{LockOptions, OnLost, ReleaseMode, validate_duration, validate_key};
use crate::util::time::now;
use std::sync::Arc;
use std::time::Duration;

/// A lock that is to be taken, and how. [`LockManager::lock`](crate::LockManager::lock) makes one.
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
#[must_use = "a lock is not taken before `acquire`, `try_acquire` or `run`"]
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

    /// The lease: how long the lock outlives a holder that crashed. A living holder renews it at a
    /// third of this. From 10 ms to a hundred years; the manager's default is 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for the lock, an outage of the server included. [`Duration::ZERO`] tries
    /// once, [`Duration::MAX`] waits for ever. The manager's default is 5 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The longest time the lock may be held, whatever happens: then renewing ends and the lease
    /// counts as lost. By default there is none.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Whether the lease is renewed while the guard lives. If not, it ends after the ttl. By default
    /// it is.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// What [`run`](Self::run) does with a body whose lease is lost. By default it is cancelled.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Whether [`run`](Self::run) waits for the release. By default as the manager's
    /// [`Config`](crate::Config) says, which is [`ReleaseMode::Confirmed`].
    pub fn release(mut self, release: ReleaseMode) -> Self {
        self.release = Some(release);
        self
    }

    /// How many replicas must have acknowledged the lock before it counts as had, and each renewal
    /// before it counts. The manager's default is none.
    ///
    /// A Redis master answers before its replicas have heard of a lock. When it dies in that moment, a
    /// replica that is promoted grants the lock a second time. With one replica or more that is
    /// unlikely: a failover prefers the replica that has heard most. It is not ruled out: `WAIT`, by
    /// which this is done, says what replicas have, and not which of them will be promoted. What must
    /// never be done twice is guarded by the [`fencing_token`](crate::LockGuard::fencing_token).
    ///
    /// Taking and renewing cost one more round trip, from the master to its replicas. While too few
    /// of them answer, the lock is [`Unavailable`](LockError::Unavailable), and what was had before is
    /// lost when its lease runs out. In a quorum they are the replicas of each member, and a member with
    /// too few does not count. The embedded engine has no replicas, and needs none.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Takes the lock, waiting for it as long as allowed.
    ///
    /// Cancel safe: a dropped future leaves the line of waiters, and a lock that it may have got
    /// already is released.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if somebody else held the lock all the time, [`LockError::Unavailable`]
    /// if the server gave no answer in that time, [`LockError::InvalidKey`] and
    /// [`LockError::InvalidOption`] before anything is sent, [`LockError::ShuttingDown`] after
    /// [`shutdown`](crate::LockManager::shutdown).
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let template = self.template;
        let acquire = self.into_acquire()?;
        let guard = acquire.acquire().await?;
        Ok(LockGuard::new(guard, &acquire, template))
    }

    /// Takes the lock if it is free: none if somebody else holds it.
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
    /// As for [`acquire`](Self::acquire), but for `Busy`.
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        let template = self.template;
        let acquire = self.wait(Duration::ZERO).into_acquire()?;
        let guard = acquire.try_once().await?;
        Ok(guard.map(|guard| LockGuard::new(guard, &acquire, template)))
    }

    /// Takes the lock, runs the body under it and releases it. The body is cancelled at its next
    /// await point when the lease is lost.
    ///
    /// The same as the attribute does, for a block instead of a function: the lock is released
    /// before this returns, and also if the body panics or the future is dropped. An error of the
    /// release never replaces the body's value.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), and [`LockError::Lost`] if the body was cancelled.
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
