//! The end of a thread: it waits for what it owes to servers.
//!
//! Releases in the background run on the I/O thread, which ends with the process. A runtime that ends drops the guards
//! of its tasks on its workers, or on the thread that drops it, and joins its workers. So if each thread waits at its end
//! for the debts that it has made, all of them are paid before the process ends: on Linux and macOS, the end of `main`
//! and [`std::process::exit`] also run the destructors of the calling thread's locals, while the other threads still
//! run. Windows runs them under a lock that the I/O thread may need.
//!
//! A runtime that is shut down in the background is not joined: its workers may drop guards when `main` has returned. So
//! the main thread also waits until no lock is in use, and for the debts of all threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest time that a thread waits for debts.
const LIMIT: Duration = Duration::from_secs(2);

/// The longest time that the main thread waits for locks that are in use: a guard in a static is never dropped.
const IN_USE_LIMIT: Duration = Duration::from_millis(500);

/// The debts of all threads.
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
        charged: RefCell::default(),
    };
}

/// The number of debts of a thread.
type Account = Arc<AtomicU64>;

struct AtEnd {
    is_main: bool,
    own: Account,
    /// The account to which debts go instead of the own one.
    charged: RefCell<Option<Account>>,
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

/// Something that is owed to a server: a release, or that a place in a queue is left. The thread that makes the debt
/// waits at its end until it is dropped.
pub(crate) struct Debt(Option<Account>);

impl Debt {
    pub(crate) fn new() -> Debt {
        let account = AT_END.try_with(|it| {
            let charged = it.charged.borrow();
            charged.as_ref().unwrap_or(&it.own).clone()
        });
        // A thread whose locals are gone waits no more.
        Debt::of(account.ok().filter(|_| is_watched()))
    }

    fn of(account: Option<Account>) -> Debt {
        if let Some(account) = &account {
            account.fetch_add(1, SeqCst);
        }
        OPEN.fetch_add(1, SeqCst);
        Debt(account)
    }

    /// Calls `work`, whose debts are for the same thread as this one.
    pub(crate) fn charge<R>(&self, work: impl FnOnce() -> R) -> R {
        let charge = |account| AT_END.try_with(|it| it.charged.replace(account));
        let before = charge(self.0.clone());
        let done = work();
        let _ = charge(before.ok().flatten());
        done
    }
}

impl Clone for Debt {
    fn clone(&self) -> Debt {
        Debt::of(self.0.clone())
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        if let Some(account) = &self.0 {
            account.fetch_sub(1, SeqCst);
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
