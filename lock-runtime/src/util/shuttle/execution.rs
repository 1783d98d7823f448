//! The running scenario, and its replacements for the I/O thread and for randomness.

use shuttle::rand::Rng;
use std::future::Future;

/// Returns `true` if the caller is part of a scenario.
pub(crate) fn running() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Runs a task that no other task awaits.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(task));
}

/// Returns a random number below 1, which is the same when a schedule is replayed.
pub(crate) fn random_fraction() -> Option<f64> {
    running().then(|| shuttle::rand::thread_rng().r#gen())
}
