//! Locks for threads without a runtime.

use crate::api::guard::LockGuard;
use crate::api::lock::Lock;
use crate::api::manager::LockManager;
use crate::config::Config;
use crate::error::LockError;
use crate::util::block_on::block_on;
use std::future::Future;

/// Runs the future of that operation on this thread.
fn run<T>(
    operation: &'static str,
    work: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    block_on(work).unwrap_or_else(|| {
        Err(LockError::Unsupported {
            operation,
            reason: "a runtime polls a task on this thread, which must not block; await the method without `blocking_`, or \
                     call this one within `tokio::task::spawn_blocking`",
        })
    })
}

impl LockManager {
    /// Connects like [`connect`](Self::connect), and blocks the thread meanwhile: for programs without a
    /// runtime. The library has a thread of its own, which renews leases and talks to the server.
    ///
    /// Such a program uses [`Lock::blocking_acquire`], and the methods of its guard: those that are no `async
    /// fn`, such as [`ensure_valid_for`](LockGuard::ensure_valid_for) and [`is_valid`](LockGuard::is_valid),
    /// [`blocking_fencing_token`](LockGuard::blocking_fencing_token) and
    /// [`blocking_release`](LockGuard::blocking_release). Nothing cancels a thread when its lease is lost:
    /// check before each step that matters. For all other methods it can block on their futures with any
    /// executor, such as `futures::executor::block_on`.
    ///
    /// ```
    /// use lock_runtime::{LockError, LockManager};
    /// use std::time::Duration;
    ///
    /// fn main() -> Result<(), LockError> {
    ///     let locks = LockManager::blocking_connect("memory://")?;
    ///     let worker = std::thread::spawn(move || {
    ///         let guard = locks.lock("order:42").wait(Duration::from_secs(2)).blocking_acquire()?;
    ///         guard.ensure_valid_for(Duration::from_secs(1))?; // before a step that takes no longer
    ///         guard.blocking_release()
    ///     });
    ///     worker.join().expect("it does not panic")
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect), and at once [`LockError::Unsupported`] if a runtime polls a task
    /// on this thread: it would keep the other tasks from running, and one of them may hold the lock. All
    /// `blocking_` methods fail like that. Within [`spawn_blocking`](tokio::task::spawn_blocking) and
    /// [`block_in_place`](tokio::task::block_in_place) they work.
    /// ([`unconstrained`](tokio::task::unconstrained) hides a task: in one, the error comes after a panic of
    /// tokio, which the library catches.)
    pub fn blocking_connect(config: impl Into<Config>) -> Result<LockManager, LockError> {
        run("blocking_connect", LockManager::connect(config))
    }

    /// Shuts the manager down like [`shutdown`](Self::shutdown), and blocks the thread meanwhile. Guards that
    /// other threads hold are lost after 5 s.
    ///
    /// # Errors
    ///
    /// [`LockError::Unsupported`] like [`blocking_connect`](Self::blocking_connect).
    pub fn blocking_shutdown(&self) -> Result<(), LockError> {
        run("blocking_shutdown", async {
            self.shutdown().await;
            Ok(())
        })
    }
}

impl Lock {
    /// Acquires the lock like [`acquire`](Self::acquire), and blocks the thread while it waits, at most for
    /// [`wait`](Self::wait). Threads and tasks of one process wait in one queue, in their order of arrival.
    ///
    /// A guard that is dropped on such a thread releases its lock in the background, as on any other.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::blocking_connect("memory://")?;
    /// let guard = locks.lock("order:42").blocking_acquire()?;
    /// let token = guard.blocking_fencing_token()?;
    /// // … write, with the token …
    /// guard.blocking_release()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and [`LockError::Unsupported`] like
    /// [`LockManager::blocking_connect`].
    pub fn blocking_acquire(self) -> Result<LockGuard, LockError> {
        run("blocking_acquire", self.acquire())
    }
}

impl LockGuard {
    /// Releases the lock like [`release`](Self::release), and blocks the thread until the server has
    /// confirmed it.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Self::release), and [`LockError::Unsupported`] like
    /// [`LockManager::blocking_connect`]. Then the lock is released in the background.
    pub fn blocking_release(self) -> Result<(), LockError> {
        run("blocking_release", self.release())
    }

    /// Returns the [`fencing_token`](Self::fencing_token), and blocks the thread while it is fetched.
    ///
    /// # Errors
    ///
    /// Those of [`fencing_token`](Self::fencing_token), and [`LockError::Unsupported`] like
    /// [`LockManager::blocking_connect`].
    pub fn blocking_fencing_token(&self) -> Result<u64, LockError> {
        run("blocking_fencing_token", self.fencing_token())
    }
}
