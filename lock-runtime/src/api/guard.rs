//! The guard of a held lock.

use crate::error::LockError;
use crate::limit::Limit;
use crate::lock::acquire::Acquire;
use crate::lock::downgrade::downgrade;
use crate::lock::fencing;
use crate::lock::handoff::HoldGuard;
use crate::lock::hold::Hold;
use crate::lock::loss::LossListener;
use crate::lock::record::guard::{GuardRecord, Source};
use crate::lock::scope::Scope;
#[cfg(any(feature = "postgres", feature = "store"))]
use crate::lock::transaction_proof;
use crate::lock::wanted::{Looks, wanted};
use crate::options::{OnLost, ReleaseMode};
#[cfg(any(feature = "postgres", feature = "store"))]
use crate::transaction_proof::TransactionProof;
use crate::util::join_all::join_all;
use once_cell::sync::OnceCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A held lock, which is renewed as long as the guard lives.
///
/// Dropping the guard, on any path, releases the lock in the background; this works outside a runtime, too.
/// [`release`](Self::release) waits for the release and returns its result. With [`ReleaseMode::Lazy`], the
/// lock stays with the process instead, for its next call.
///
/// A guard cannot stop a process that was paused after it last checked the clock. Where two holders would
/// do harm, the protected resource itself must reject late writes: see
/// [`fencing_token`](Self::fencing_token).
#[must_use = "a guard that is dropped releases its lock"]
pub struct LockGuard {
    guard: HoldGuard,
    /// Those of further keys, in the order of acquisition.
    others: Vec<HoldGuard>,
    record: Arc<GuardRecord>,
    limit: Limit,
    pub(crate) on_lost: OnLost,
    pub(crate) release: ReleaseMode,
    fencing_token: OnceCell<u64>,
    /// Boxed, and made when it is needed: few guards ask who waits.
    looks: OnceCell<Box<Looks>>,
}

impl LockGuard {
    pub(crate) fn new(guard: HoldGuard, acquire: &Acquire) -> LockGuard {
        LockGuard::of_several(guard, Vec::new(), acquire)
    }

    pub(crate) fn of_several(
        mut guard: HoldGuard,
        mut others: Vec<HoldGuard>,
        acquire: &Acquire,
    ) -> LockGuard {
        let Acquire {
            purpose, started, ..
        } = acquire;
        let (context, key) = (guard.hold().context(), guard.hold().key());
        let sources = others.iter().map(HoldGuard::source);
        let source = sources.fold(guard.source(), Source::max);
        let record = GuardRecord::begin(context, key, purpose.clone(), *started, source);
        for guard in std::iter::once(&mut guard).chain(&mut others) {
            guard.report_loss_by(&record);
            // Only now: a lock that its caller never received is released at once.
            if let Some(min_hold) = acquire.options.min_hold {
                guard.hold().retain_for(min_hold);
            }
        }
        // The first report has this guard.
        guard.hold().context().reporter.on_use();
        LockGuard {
            guard,
            others,
            record,
            limit: acquire.options.limit,
            on_lost: acquire.options.on_lost,
            release: acquire.options.release,
            fencing_token: OnceCell::new(),
            looks: OnceCell::new(),
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.guard.hold()
    }

    /// Runs the body's code in the span of the guard.
    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        self.record.in_scope(work)
    }

    /// Returns the holds of further keys.
    pub(crate) fn other_holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.others.iter().map(HoldGuard::hold)
    }

    fn holds(&self) -> impl Iterator<Item = &Arc<Hold>> {
        std::iter::once(self.hold()).chain(self.other_holds())
    }

    /// Returns a listener for the loss of any key.
    pub(crate) fn loss_listener(&self) -> LossListener<'_> {
        LossListener::new(self.hold(), self.other_holds())
    }

    /// Returns the scope of a body that runs under this guard.
    pub(crate) fn scope(&self) -> Arc<Scope> {
        Scope::new(self.hold().clone(), self.other_holds().cloned())
    }

    /// Hands each lock to the next local waiter, or releases it. Returns the first error.
    pub(crate) async fn release_or_hand_off(&self) -> Result<(), LockError> {
        if self.others.is_empty() {
            let released = self.guard.release_or_hand_off().await;
            self.report_end(std::slice::from_ref(&released));
            return released;
        }
        let released = join_all(self.guards().map(HoldGuard::release_or_hand_off)).await;
        self.report_end(&released);
        released.into_iter().collect()
    }

    /// Reports the end of the guard, given what came of the release of each key.
    fn report_end(&self, released: &[Result<(), LockError>]) {
        let context = self.hold().context();
        let lost = released.iter().find_map(|released| match released {
            Err(LockError::Lost { key, cause, .. }) => Some((key, *cause)),
            _ => None,
        });
        match lost {
            Some((key, cause)) => self.record.ended_without_lock(context, key, cause),
            None => {
                let confirmed = released.iter().all(Result::is_ok);
                self.record.released(context, self.key(), confirmed);
            }
        }
    }

    fn guards(&self) -> impl Iterator<Item = &HoldGuard> {
        std::iter::once(&self.guard).chain(&self.others)
    }

    /// Returns the key, without the manager's prefix; of several keys, the first in the order of acquisition.
    #[must_use]
    pub fn key(&self) -> &str {
        self.hold().key()
    }

    /// Returns all keys, in the order in which they were acquired.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.holds().map(|hold| hold.key())
    }

    /// Returns for how long the lease is proven without another renewal; zero once it is lost, or
    /// [revoked](crate::LockManager::revoke).
    ///
    /// The lease counts from before the last confirmed request was sent, less a margin for clock drift. Time
    /// during which the machine slept counts. Of several keys, the least time counts.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let remaining = self.holds().map(|hold| hold.remaining());
        remaining.min().unwrap_or_default()
    }

    /// Returns `true` if the lease is proven at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Waits until the lease is lost, or the lock is [revoked](crate::LockManager::revoke): then it stays
    /// held until the guard ends. Returns the [`LockError::Lost`] with the cause.
    ///
    /// Never resolves while the lock is held. Each poll checks the clock, so in a `select!` with a running
    /// body, a loss while the machine slept is noticed at once. Cancel safe.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let short = Duration::from_millis(50);
    /// let guard = locks.lock("order:42").ttl(short).renew(false).acquire().await?;
    /// assert!(guard.lost().await.is_lost());
    /// assert!(!guard.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LockError {
        let mut loss = pin!(self.loss_listener());
        poll_fn(|context| match loss.as_mut().poll_lost(context) {
            Some(loss) => Poll::Ready(loss),
            None => Poll::Pending,
        })
        .await
    }

    /// Waits until a caller of another process waits for the lock, so that a body which holds it for long,
    /// such as that of a leader or of a partition's owner, can hand it over early. Also resolves when the
    /// lock is lost.
    ///
    /// With [`ReleaseMode::Lazy`], where locks can be kept, this process hears of the other one at once. The
    /// library also looks at the server, at most once a second and while the future is polled, of several
    /// keys at one in turn. A single [try](crate::Lock::try_acquire) of another process does not count, nor
    /// does a client that has no queue. A caller that has waited counts even if it has given up since. Cancel
    /// safe.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager, ReleaseMode};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://wanted").await?;
    /// # let other = LockManager::connect("memory://wanted").await?;
    /// let guard = locks.lock("partition:7").release_mode(ReleaseMode::Lazy).acquire().await?;
    /// let elsewhere = tokio::spawn(other.lock("partition:7").acquire());
    /// loop {
    ///     tokio::select! {
    ///         _ = guard.wanted() => break, // another replica has started
    ///         _ = next_message() => { /* … handle it … */ }
    ///     }
    /// }
    /// guard.release().await?;
    /// elsewhere.await.unwrap()?;
    /// # Ok(())
    /// # }
    /// # async fn next_message() { tokio::task::yield_now().await }
    /// ```
    pub async fn wanted(&self) {
        let guards: Vec<_> = self.guards().collect();
        let mut wanted = pin!(wanted(&guards, self.looks.get_or_init(Box::default)));
        let mut loss = pin!(self.loss_listener());
        poll_fn(|context| match loss.as_mut().poll_lost(context) {
            Some(_) => Poll::Ready(()),
            None => wanted.as_mut().poll(context),
        })
        .await;
    }

    /// Checks that the lease is valid for at least `duration`. Call it before an irreversible step.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock("order:42").acquire().await?;
    /// guard.ensure_valid_for(Duration::from_secs(2))?; // the payment's own timeout
    /// // … pay …
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease is lost, or (with
    /// [`LostCause::InsufficientTime`](crate::LostCause::InsufficientTime)) is proven for less than
    /// `duration`.
    pub fn ensure_valid_for(&self, duration: Duration) -> Result<(), LockError> {
        self.holds()
            .try_for_each(|hold| hold.ensure_valid_for(duration))
    }

    /// Returns the statement with which a transaction of yours, on the database that keeps the lock, excludes
    /// all other holders until it ends; for locks in PostgreSQL, MySQL and MariaDB.
    ///
    /// A lease alone can't do that: a process may be paused between its last check and its write. Run the
    /// statement in the transaction that does the work, and the transaction either commits before any other
    /// caller gets the lock, or fails. The transaction also keeps the lock from others if the lease ends
    /// before it does. Readers and holders of permits exclude those whom they exclude by holding the lock.
    /// [`TransactionProof`](crate::TransactionProof) has an example.
    ///
    /// It must be the first statement of the transaction, outside savepoints (rolling one back gives the
    /// proof up), in PostgreSQL at the isolation level `READ COMMITTED`: with `REPEATABLE READ` it may fail
    /// there although the lock is held, when a renewal came after the transaction's snapshot.
    ///
    /// Get it anew in each body, and after a [`downgrade`](Self::downgrade): it proves the lock of this guard
    /// alone. When the guard ends, no caller of this process gets the lock without asking the server, since a
    /// transaction may still be open.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is lost, [`LockError::Unavailable`] if the server did not reply while
    /// the lease was valid, [`LockError::Unsupported`] if the lock is not in such a database, or in
    /// MySQL behind a proxy.
    #[cfg(any(feature = "postgres", feature = "store"))]
    pub async fn transaction_proof(&self) -> Result<TransactionProof, LockError> {
        transaction_proof::prove(self.holds().collect()).await
    }

    /// Returns a number greater than that of every earlier hold on this server. The protected resource must
    /// reject a write with a smaller number than the greatest it has seen.
    ///
    /// The first call fetches the number from the server; later calls return the same number. It is below
    /// 2⁵³, so JSON preserves it. A holder that was paused and overtaken has a smaller number than its
    /// successor; see [How to do distributed
    /// locking](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let first = locks.lock("order:42").acquire().await?;
    /// let token = first.fencing_token().await?;
    /// first.release().await?;
    ///
    /// let second = locks.lock("order:42").acquire().await?;
    /// assert!(second.fencing_token().await? > token);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A reader's number is greater than that of every earlier writer and smaller than that of every later
    /// one; among readers, the order says nothing. A resource that rejects stale readers keeps two numbers:
    /// the greatest of an accepted write, and the greatest of anything accepted. It accepts a write that is
    /// not below the latter, and a read that is not below the former. Several keys have one number, for which
    /// the same holds for each of them. A nested call with [`reentrant`](crate::Lock::reentrant) for the same
    /// keys has the outer call's number.
    ///
    /// Cancel safe: dropping the future at most skips a number.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is lost, [`LockError::Unavailable`] if the server did not reply while
    /// the lease was valid, [`LockError::Unsupported`] with [`permits`](crate::Lock::permits): holders beside
    /// each other have no order.
    pub async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(token) = self.fencing_token.get() {
            return Ok(*token);
        }
        let limit = self.limit;
        if !limit.is_exclusive() && limit != Limit::UNLIMITED {
            return Err(LockError::Unsupported {
                operation: "fencing_token",
                reason: "holders that share permits have no order, and thus no fencing tokens; use an \
                         exclusive lock for what must be fenced",
            });
        }
        let token = match self.others[..] {
            [] => self.hold().fencing_token().await?,
            // Boxed: few guards have several keys.
            _ => Box::pin(fencing::common_token(self.holds().collect())).await?,
        };
        Ok(*self.fencing_token.get_or_init(|| token))
    }

    /// Shares an exclusive lock with readers from now on, without a moment in which another writer could
    /// acquire it. Readers that wait right behind enter at once. The guard keeps its fencing token, and what
    /// is left of its `max_hold`.
    ///
    /// The way back does not exist, since two readers that wanted to write would wait for each other: acquire
    /// the lock exclusively from the start, or release it, acquire it exclusively, and check again.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let guard = locks.lock("report:7").acquire().await?;
    /// // … publish the report …
    /// let guard = guard.downgrade().await?; // … and check what others read
    /// let reader = locks.lock("report:7").read().acquire().await?;
    /// # drop((guard, reader));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] or [`LockError::Unavailable`] if the lease was lost before the server confirmed
    /// the change; [`LockError::Unsupported`] in a quorum, and with [`permits`](crate::Lock::permits). In all
    /// cases the lock is released, and also if the future is dropped.
    pub async fn downgrade(mut self) -> Result<LockGuard, LockError> {
        if self.limit == Limit::UNLIMITED {
            return Ok(self);
        }
        let reason = match self.limit.is_exclusive() {
            true => self.hold().context().engine.refuses_downgrade(),
            false => Some("only an exclusive lock can be turned into one for reading"),
        };
        if let Some(reason) = reason {
            return Err(LockError::Unsupported {
                operation: "downgrade",
                reason,
            });
        }
        self.limit = Limit::UNLIMITED;
        let this = &mut self;
        for guard in std::iter::once(&mut this.guard).chain(&mut this.others) {
            *guard = downgrade(guard).await?;
            guard.report_loss_by(&this.record);
        }
        Ok(self)
    }

    /// Releases the lock and waits until the server has confirmed it. A waiter of this process may receive
    /// the lock instead, without a request to the server. With [`ReleaseMode::Lazy`], the next call of this
    /// process may receive it, and nothing is sent until then.
    ///
    /// Cancel safe: if the future is dropped, the release continues in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if this guard no longer held the lock, [`LockError::Unavailable`] if the server
    /// rejected the release, or did not confirm it within the command timeout. In that case the release
    /// continues in the background until the server confirms it or the ttl has passed.
    pub async fn release(self) -> Result<(), LockError> {
        self.release_or_hand_off().await
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.record.has_ended() {
            return;
        }
        let context = self.hold().context();
        // Before other guards have the holds, and may lose them.
        let mut holds = self.holds();
        let lost = holds.find_map(|hold| Some((hold.key(), hold.lost_cause()?)));
        self.guards().for_each(HoldGuard::end_in_background);
        match lost {
            Some((key, cause)) => self.record.ended_without_lock(context, key, cause),
            None => self.record.released(context, self.key(), false),
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", &self.key())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
