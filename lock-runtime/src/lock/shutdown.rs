//! The end of a manager.

use crate::lock::inner::ManagerInner;
use crate::util::time::deadline_in;
use std::time::Duration;

/// Grants no more locks, lets the bodies finish within `grace`, cancels the others, and waits until all locks
/// are released.
///
/// A canceled body is dropped at its next await, and then its lock is released: never before, or there would
/// be two holders. Of a body that does not get there, the lease is not renewed any more, and ends.
pub(crate) async fn shut_down(inner: &ManagerInner, grace: Duration) {
    let ManagerInner {
        context,
        queues,
        shared,
        ..
    } = inner;
    context.close();
    inner.stop_keeping();
    queues.wake_all();
    let holds = || context.holds.wait_idle();
    let finished = context.io.timeout_at(deadline_in(grace), holds());
    if finished.await.is_err() {
        shared.watchdog.cancel().await;
        // A downgrade under way may replace a hold meanwhile.
        while let Some(ended) = shared.watchdog.last_lease_end() {
            if context.io.timeout_at(ended, holds()).await.is_ok() {
                break;
            }
        }
    }
    context.tasks.wait_idle().await;
    context.reporter.finish().await;
    let _ = context
        .engine
        .drain(deadline_in(context.command_timeout))
        .await;
}
