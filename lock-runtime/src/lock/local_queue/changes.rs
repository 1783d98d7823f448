//! Tests that wait until a lock is held or waited for.

#[cfg(feature = "testing")]
use crate::lock::local_lock::LocalLock;
use crate::lock::local_queue::LocalQueues;
#[cfg(feature = "testing")]
use tokio::sync::Notify;

impl<T> LocalQueues<T> {
    /// Waits until the lock is in a state that has come about by a new holder or a new waiter.
    #[cfg(feature = "testing")]
    pub(crate) async fn wait_until(&self, name: &str, is_so: impl Fn(&LocalLock<T>) -> bool) {
        let changed = self.changed.get_or_init(Notify::new);
        loop {
            let changed = changed.notified();
            let is_so = match self.locked().get(name) {
                Some(lock) => is_so(lock),
                None => is_so(&LocalLock::default()),
            };
            if is_so {
                return;
            }
            changed.await;
        }
    }

    /// Wakes the test that waits for a change. Called outside the mutex: the waker belongs to the test's
    /// executor.
    pub(super) fn report_change(&self) {
        #[cfg(feature = "testing")]
        if let Some(changed) = self.changed.get() {
            changed.notify_waiters();
        }
    }
}
