//! The guard of a held lock.

use crate::error::LockError;
use crate::lock::acquire::Acquire;
use crate::lock::handoff::HoldGuard;
use crate::lock::hold::Hold;
use crate::options::LockOptions;
use crate::trace::LockSpan;
use once_cell::sync::OnceCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

/// A held lock, which is renewed as long as the guard lives.
///
/// Dropping the guard, on any path, releases the lock in the background; this works outside a runtime, too.
/// [`release`](Self::release) waits for the release and returns its result.
///
/// A guard cannot stop a process that was paused after it last checked the clock. Where two holders would
/// do harm, the protected resource itself must reject late writes: see
/// [`fencing_token`](Self::fencing_token).
#[must_use = "a guard that is dropped releases its lock"]
pub struct LockGuard {
    // Dropped before the span, which covers the end of the hold.
    guard: HoldGuard,
    pub(crate) options: LockOptions,
    pub(crate) span: LockSpan,
    fencing_token: OnceCell<u64>,
}

impl LockGuard {
    pub(crate) fn new(guard: HoldGuard, acquire: &Acquire, template: &'static str) -> LockGuard {
        let hold = guard.hold();
        let span = LockSpan::start(template, hold.key(), acquire.started);
        hold.set_span(span.handle());
        LockGuard {
            guard,
            options: acquire.options,
            span,
            fencing_token: OnceCell::new(),
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.guard.hold()
    }

    /// Hands the lock to the next local waiter, or releases it.
    pub(crate) async fn release_or_hand_off(&self) -> Result<(), LockError> {
        self.guard.release_or_hand_off().await
    }

    /// Returns the key, without the manager's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        self.hold().key()
    }

    /// Returns for how long the lease is proven without another renewal; zero once it is lost.
    ///
    /// The lease counts from before the last confirmed request was sent, less a margin for clock drift. Time
    /// during which the machine slept counts.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// Returns `true` if the lease is proven at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Waits until the lease is lost. Returns the [`LockError::Lost`] with the cause.
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
        let mut lost = pin!(self.hold().lost.notified());
        poll_fn(|context| {
            loop {
                // Subscribe before the check, so that no loss falls in between.
                let notified = lost.as_mut().poll(context);
                if let Some(loss) = self.hold().check_lost() {
                    return Poll::Ready(loss);
                }
                ready!(notified);
                lost.set(self.hold().lost.notified());
            }
        })
        .await
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
        self.hold().ensure_valid_for(duration)
    }

    /// Returns a number greater than that of every earlier hold on this server. The protected resource must
    /// reject a write with a smaller number than the greatest it has seen.
    ///
    /// The first call fetches the number from the server; later calls return the same number. It is below
    /// 2⁵³, so JSON preserves it. A holder that was paused and overtaken has a smaller number than its
    /// successor; see
    /// [How to do distributed locking](https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
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
    /// Cancel safe: dropping the future at most skips a number.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is lost, [`LockError::Unavailable`] if the server did not answer while
    /// the lease was valid.
    pub async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(token) = self.fencing_token.get() {
            return Ok(*token);
        }
        let token = self.hold().fencing_token().await?;
        Ok(*self.fencing_token.get_or_init(|| token))
    }

    /// Releases the lock and waits until the server has confirmed it. A waiter of this process may receive
    /// the lock instead, without a request to the server.
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

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", &self.key())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
