//! The guard: a lock that is held.

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

/// A lock that is held, and renewed as long as the guard lives.
///
/// Dropping it, on whatever path, has it released in the background, by the I/O thread; so does
/// dropping it outside any runtime. [`release`](Self::release) waits for that, and says what was
/// found.
///
/// A guard can't stop a process that was paused after its last look at the clock. What must never
/// be done by two holders is guarded by the resource itself: see
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

    /// Ends the guard: hands the lock to the next waiter of this process, or releases it.
    pub(crate) async fn release_or_hand_off(&self) -> Result<(), LockError> {
        self.guard.release_or_hand_off().await
    }

    /// The key, as it was given, without the manager's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        self.hold().key()
    }

    /// How long the lease can still be proven to run without another renewal; zero once it is lost.
    ///
    /// Counted from before the last confirmed request was sent, less a margin for the clocks, and
    /// with the time during which the machine slept.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.hold().remaining()
    }

    /// Whether the lease can be proven to run at this moment.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Resolves when the lease is lost, with the [`LockError::Lost`] that says how.
    ///
    /// Cancel safe. Never resolves for a lock that isn't lost. It asks the clock each time that it is polled,
    /// as in a `select!` with a body that goes on, so that a machine that slept is noticed at once.
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
                // Listens before it looks, so that no loss falls in between.
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

    /// Makes sure that the lease runs for at least so long, before a step that can't be undone.
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
    /// [`LockError::Lost`] if the lease is lost, or can't be proven to run for so long.
    pub fn ensure_valid_for(&self, duration: Duration) -> Result<(), LockError> {
        self.hold().ensure_valid_for(duration)
    }

    /// A number greater than that of every earlier hold on this server, for the protected resource
    /// to compare: it refuses a write whose number is smaller than the greatest it has seen.
    ///
    /// Fetched from the server when first asked for, and the same for the whole of this hold. It is
    /// below 2⁵³, so it survives JSON. A holder that was paused and overtaken has a smaller number
    /// than the one who overtook it; see
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
    /// Cancel safe: a dropped future costs a number, and nothing else.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is no longer this guard's, [`LockError::Unavailable`] if the
    /// server gave no answer while the lease ran.
    pub async fn fencing_token(&self) -> Result<u64, LockError> {
        if let Some(token) = self.fencing_token.get() {
            return Ok(*token);
        }
        let token = self.hold().fencing_token().await?;
        Ok(*self.fencing_token.get_or_init(|| token))
    }

    /// Releases the lock, and says what the server found. Who waits for it in this process may get
    /// it at once, without the server being asked.
    ///
    /// Cancel safe: a release that was begun is brought to its end in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock wasn't this guard's any more, [`LockError::Unavailable`] if
    /// the server didn't confirm it within the command timeout, or refused it; the release goes on
    /// in the background until it has, or the ttl has passed.
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
