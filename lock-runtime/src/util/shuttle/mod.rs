//! What stands in for threads, tasks and time while a scheduler tries the orders of their steps.

pub(crate) mod scheduler;
pub(crate) mod sync;
pub(crate) mod virtual_time;
pub(crate) mod watch;

use shuttle::rand::Rng;
use std::future::Future;

/// Whether the caller is part of a scenario.
pub(crate) fn running() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Runs a task that nobody waits for.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(task));
}

/// A random part of one, which is the same when an order is tried again.
pub(crate) fn drawn() -> Option<f64> {
    running().then(|| shuttle::rand::thread_rng().r#gen())
}
