//! The end of a thread: it waits for the work that it has begun for servers.
//!
//! Releases in the background run on the I/O thread, which ends with the process. A runtime that ends drops
//! the guards of its tasks on its workers, or on the thread that drops it, and joins its workers. So if each
//! thread waits at its end for the work that it has begun, all of it is done before the process ends: on
//! Linux and macOS, the end of `main` and [`std::process::exit`] also run the destructors of the calling
//! thread's locals, while the other threads still run. Windows runs them under a lock that the I/O thread may
//! need.
//!
//! A runtime that is shut down in the background is not joined: its workers may drop guards when `main` has
//! returned. So the main thread also waits until no lock is in use, and for the pending work of all threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest time that a thread waits for pending work.
const LIMIT: Duration = Duration::from_secs(2);

/// The longest time that the main thread waits for locks that are in use: a guard in a static is never
/// dropped.
const IN_USE_LIMIT: Duration = Duration::from_millis(500);

/// How much work of all threads is pending.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// The number of threads that wait.
static WAITING: AtomicU64 = AtomicU64::new(0);
static MUTEX: Mutex<()> = Mutex::new(());
static PROGRESS: Condvar = Condvar::new();
static USES: Mutex<Vec<Weak<dyn Use>>> = Mutex::new(Vec::new());

thread_local! {
    static AT_END: AtEnd = AtEnd {
        is_main: std::thread::current().name() == Some("main"),
        own: Arc::default(),
        instead: RefCell::default(),
    };
}

/// How much of a thread's work is pending.
type ThreadTally = Arc<AtomicU64>;

struct AtEnd {
    is_main: bool,
    own: ThreadTally,
    /// The tally of the thread for which this one works now.
    instead: RefCell<Option<ThreadTally>>,
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        if cfg!(windows) {
            return;
        }
        if self.is_main {
            uses_now().into_iter().for_each(|used| used.end_idle());
            wait_until(IN_USE_LIMIT, no_lock_is_used);
            wait_until(LIMIT, || OPEN.load(SeqCst) == 0);
        } else {
            wait_until(LIMIT, || self.own.load(SeqCst) == 0);
        }
    }
}

/// Work that a server waits for: a release, or that a place in a queue is left. The thread that begins it
/// waits at its end until this is dropped.
pub(crate) struct PendingWork(Option<ThreadTally>);

impl PendingWork {
    pub(crate) fn new() -> PendingWork {
        let tally = AT_END.try_with(|it| {
            let instead = it.instead.borrow();
            instead.as_ref().unwrap_or(&it.own).clone()
        });
        // A thread whose locals are gone waits no more.
        PendingWork::of(tally.ok().filter(|_| is_watched()))
    }

    fn of(tally: Option<ThreadTally>) -> PendingWork {
        if let Some(tally) = &tally {
            tally.fetch_add(1, SeqCst);
        }
        OPEN.fetch_add(1, SeqCst);
        PendingWork(tally)
    }

    /// Calls `work`. The thread that waits for this waits for what `work` begins, too.
    pub(crate) fn continue_with<R>(&self, work: impl FnOnce() -> R) -> R {
        let work_for = |tally| AT_END.try_with(|it| it.instead.replace(tally));
        let before = work_for(self.0.clone());
        let done = work();
        let _ = work_for(before.ok().flatten());
        done
    }
}

impl Clone for PendingWork {
    fn clone(&self) -> PendingWork {
        PendingWork::of(self.0.clone())
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        if let Some(tally) = &self.0 {
            tally.fetch_sub(1, SeqCst);
        }
        OPEN.fetch_sub(1, SeqCst);
        progress();
    }
}

/// A use of locks, which ends before the process does if that ends in an ordinary way.
pub(crate) trait Use: Send + Sync {
    fn is_over(&self) -> bool;

    /// Releases kept locks, since the process is about to end.
    fn end_idle(self: Arc<Self>) {}
}

/// Lets this thread wait at its end.
pub(crate) fn watch() {
    if is_watched() {
        let _ = AT_END.try_with(|_| ());
    }
}

/// Lets the main thread wait at its end until that use is over.
pub(crate) fn watch_use(used: Weak<dyn Use>) {
    let mut uses = uses();
    uses.retain(|used| used.strong_count() > 0);
    uses.push(used);
}

/// Lets the threads that wait at their ends look again.
pub(crate) fn progress() {
    if WAITING.load(SeqCst) > 0 {
        let _locked = MUTEX.lock().unwrap_or_else(PoisonError::into_inner);
        PROGRESS.notify_all();
    }
}

fn is_watched() -> bool {
    #[cfg(test)]
    if crate::util::shuttle::execution::running() {
        return false;
    }
    true
}

fn no_lock_is_used() -> bool {
    uses_now().iter().all(|used| used.is_over())
}

fn uses_now() -> Vec<Arc<dyn Use>> {
    uses().iter().filter_map(Weak::upgrade).collect()
}

fn uses() -> MutexGuard<'static, Vec<Weak<dyn Use>>> {
    USES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `is_done` returns `true`, for that time at most.
fn wait_until(limit: Duration, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    WAITING.fetch_add(1, SeqCst);
    let mut locked = MUTEX.lock().unwrap_or_else(PoisonError::into_inner);
    while !is_done() {
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            break;
        }
        locked = match PROGRESS.wait_timeout(locked, left) {
            Ok((locked, _)) => locked,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
    drop(locked);
    WAITING.fetch_sub(1, SeqCst);
}
