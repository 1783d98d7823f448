//! Whether a scenario runs, and what it does in place of the I/O thread and of randomness.

use shuttle::rand::Rng;
use std::future::Future;

/// Returns `true` if the caller is part of a scenario.
pub(crate) fn running() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Runs a task that no other waits for.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(task));
}

/// A random part of one, which is the same when an order is tried again.
pub(crate) fn random_fraction() -> Option<f64> {
    running().then(|| shuttle::rand::thread_rng().r#gen())
}
