//! The builder of an acquire call.

mod call;

use crate::lock::inner::Manager;
use crate::options::{OnLost, ReleaseMode};
use crate::site::{Purpose, Site};
use std::panic::Location;
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
    inner: Option<Arc<Manager>>,
    purpose: Purpose,
    keys: Keys,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    renew: bool,
    max_hold: Option<Duration>,
    on_lost: OnLost,
    release: Option<ReleaseMode>,
    replicas: Option<u32>,
    read: bool,
    permits: Option<u32>,
    min_hold: Option<Duration>,
    max_waiters: Option<usize>,
    reentrant: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(String),
    /// Acquired together, in an order that all clients share.
    All(Vec<String>),
}

impl Lock {
    pub(crate) fn new(
        inner: Option<Arc<Manager>>,
        site: Option<&'static Site>,
        keys: Keys,
    ) -> Lock {
        Lock {
            inner,
            purpose: Purpose { site, label: None },
            keys,
            ttl: None,
            wait: None,
            renew: true,
            max_hold: None,
            on_lost: OnLost::Cancel,
            release: None,
            replicas: None,
            read: false,
            permits: None,
            min_hold: None,
            max_waiters: None,
            reentrant: false,
        }
    }

    /// Shares the lock with other readers: any number of them hold it at the same time, and none beside an
    /// exclusive holder. Beside holders of [`permits`](Self::permits) of the same key they count, and those
    /// of one process that share a hold count once.
    ///
    /// Readers and writers acquire the lock in their order of arrival; readers that are neighbors in the
    /// queue enter together. Each reader has a lease of its own: one that crashes delays writers by its own
    /// ttl, whatever the others renew. A reader whose process holds the lock for reading since a moment ago
    /// joins that hold, without a request to the server.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let one = locks.lock("report:7").read().acquire().await?;
    /// let other = locks.lock("report:7").read().acquire().await?;
    /// assert!(locks.lock("report:7").try_acquire().await?.is_none());
    /// # drop((one, other));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read(mut self) -> Self {
        self.read = true;
        self
    }

    /// Lets up to `permits` holders share the lock, over all processes: a semaphore. From 1, which is an
    /// exclusive lock, to 2046.
    ///
    /// Each holder has a lease of its own, so the permit of a holder that crashed is free after its ttl. If
    /// holders disagree about the number, for example during a deployment, each number is respected as long
    /// as a holder with that number holds the lock: the lowest one decides. Holders beside each other have no
    /// order, so there is no [`fencing_token`](crate::LockGuard::fencing_token). With
    /// [`min_hold`](Self::min_hold), permits limit a rate. In a [quorum](crate::Config::quorum), whose
    /// members can't count holders together, a call with permits fails with
    /// [`Unsupported`](crate::LockError::Unsupported).
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let partner = || locks.lock("partner-api").permits(2);
    /// let (one, two) = (partner().acquire().await?, partner().acquire().await?);
    /// assert!(partner().try_acquire().await?.is_none());
    /// # drop((one, two));
    /// # Ok(())
    /// # }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = Some(permits);
        self
    }

    /// Keeps the lock for at least this time, even if the guard ends earlier: a job that takes 50 ms does not
    /// run again on a machine whose timer fires 200 ms later. From 10 ms to 365 days, and no longer than
    /// [`max_hold`](Self::max_hold); by default the lock is free at once.
    ///
    /// It holds on every path on which the guard ends, except for a crash, which the ttl heals.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.min_hold = Some(min_hold);
        self
    }

    /// Limits the number of callers of this process that wait for the lock. A call that finds that many is
    /// [`Busy`](crate::LockError::Busy) at once, so that an overload is shed where it builds up.
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = Some(max_waiters);
        self
    }

    /// Sets the lease: how long the lock outlives a crashed holder. A live holder renews it after a third of
    /// this time. From 10 ms to 365 days; the manager's default is 30 s.
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
    /// lost. From 10 ms to 365 days; by default there is no limit.
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

    /// Sets how [`run`](Self::run) releases the lock: with or without waiting for the server's confirmation.
    /// The manager's default is [`ReleaseMode::Confirmed`]. With [`ReleaseMode::Lazy`], the lock stays with
    /// this process for its next call, also when a guard ends that is held by hand.
    pub fn release_mode(mut self, mode: ReleaseMode) -> Self {
        self.release = Some(mode);
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
    /// replicas acknowledge, the lock is [`Unavailable`](crate::LockError::Unavailable), and a held lock is
    /// lost when its lease expires. In a quorum the number applies to the replicas of each member, and a
    /// member with too few acknowledgments does not count. The embedded engine has no replicas and ignores
    /// this; etcd and ZooKeeper, where a majority stores every lock, refuse more than 0. In PostgreSQL, it
    /// asks for synchronous standbys.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Names what the call locks, in words that have few values, such as `stock:<sku>`: for spans, events and
    /// metrics, which can't have one series for each key. The attribute does it with its `key`.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// # let sku = 7;
    /// let stock = locks.lock(format!("stock:{sku}")).template("stock:<sku>");
    /// stock.acquire().await?.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn template(mut self, template: &'static str) -> Self {
        self.purpose.site = Some(Site::of_call(template, Location::caller()));
        self
    }

    /// Says what the call is for, such as the id of a request: for spans and events. The attribute has `label
    /// = "<id>"`.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock("order:42").label("request 7f3a").acquire().await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.purpose.label = Some(label.into());
        self
    }

    /// With `true`, a call from a body that holds the lock already runs under that hold, instead of failing
    /// with [`WouldDeadlock`](crate::LockError::WouldDeadlock). The nested calls of one body take turns;
    /// those that read run together. The lease, the loss and the fencing token are those of the outer hold,
    /// and so are `ttl`, `max_hold` and `replicas`; the hold ends with its last guard. A body that reads
    /// cannot be entered for writing. Spawned tasks are not within the body. Without an outer hold, this is a
    /// lock like any other.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let order = || locks.lock("order:42");
    /// let nested = order().run(async |_| order().run(async |_| ()).await).await?;
    /// assert!(matches!(nested, Err(LockError::WouldDeadlock { .. })));
    ///
    /// let nested = order().run(async |_| order().reentrant(true).run(async |_| ()).await).await?;
    /// assert!(nested.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reentrant(mut self, reentrant: bool) -> Self {
        self.reentrant = reentrant;
        self
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("keys", &self.keys)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
