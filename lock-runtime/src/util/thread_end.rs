//! The end of a thread: it waits for the releases under way.
//!
//! Releases in the background run on the I/O thread, which ends with the process. A runtime that ends drops the guards
//! of its tasks on its workers, or on the thread that drops it, and joins its workers. So if each thread that has begun a
//! release waits for it at its end, all of them are done before the process ends: on Linux and macOS, the end of
//! `main` and [`std::process::exit`] also run the destructors of the calling thread's locals, while the other threads
//! still run. Windows runs them under a lock that the I/O thread may need.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that a thread waits at its end.
const LIMIT: Duration = Duration::from_secs(2);

static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
/// The number of threads that wait.
static WAITING: AtomicU32 = AtomicU32::new(0);
static MUTEX: Mutex<()> = Mutex::new(());
static PROGRESS: Condvar = Condvar::new();

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        if cfg!(not(windows)) {
            wait();
        }
    }
}

/// Lets this thread wait at its end for the releases that have begun by then.
pub(crate) fn watch() {
    #[cfg(test)]
    if crate::util::shuttle::execution::running() {
        return;
    }
    // A thread whose locals are gone is not waited for.
    let _ = AT_END.try_with(|_| ());
}

/// Counts one more release, until [`end`] is called. This thread waits for it at its end.
pub(crate) fn begin() {
    watch();
    BEGUN.fetch_add(1, SeqCst);
}

/// Ends the count of a release.
pub(crate) fn end() {
    ENDED.fetch_add(1, SeqCst);
    if WAITING.load(SeqCst) > 0 {
        let _locked = MUTEX.lock().unwrap_or_else(PoisonError::into_inner);
        PROGRESS.notify_all();
    }
}

/// Waits until as many releases have ended as have begun until now. Those that other threads begin meanwhile count, too,
/// so that a process which always releases some lock keeps no thread from ending.
fn wait() {
    let (begun, start) = (BEGUN.load(SeqCst), Instant::now());
    WAITING.fetch_add(1, SeqCst);
    let mut locked = MUTEX.lock().unwrap_or_else(PoisonError::into_inner);
    while ENDED.load(SeqCst) < begun {
        let left = LIMIT.saturating_sub(start.elapsed());
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
