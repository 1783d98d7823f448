//! The promises of the lock, on the embedded engine.

#[path = "promises/cancel.rs"]
mod cancel;
#[path = "promises/exit.rs"]
mod exit;
#[path = "promises/fencing.rs"]
mod fencing;
#[path = "promises/global.rs"]
mod global;
#[path = "promises/queue.rs"]
mod queue;
#[path = "support/time.rs"]
mod time;
#[path = "promises/waiting.rs"]
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use lock_runtime::LockManager;
use tokio::runtime::Builder;

/// A store in this process, with a name of its own.
struct Site {
    url: String,
    locks: LockManager,
    looks: LockManager,
}

impl Site {
    async fn start() -> Self {
        static STORES: AtomicUsize = AtomicUsize::new(0);
        let url = format!("memory://site-{}", STORES.fetch_add(1, Relaxed));
        let locks = LockManager::connect(url.as_str()).await.unwrap();
        let looks = LockManager::connect(url.as_str()).await.unwrap();
        Self { url, locks, looks }
    }

    fn locks(&self) -> &LockManager {
        &self.locks
    }

    async fn another(&self) -> LockManager {
        LockManager::connect(self.url.as_str()).await.unwrap()
    }

    fn is_held(&self, key: &str) -> bool {
        let look = async {
            match self.looks.lock(key).try_acquire().await.unwrap() {
                Some(guard) => guard.release().await.map(|()| false).unwrap(),
                None => true,
            }
        };
        // On a thread of its own: the caller may be inside a runtime.
        thread::scope(|scope| {
            let look = || {
                Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap()
                    .block_on(look)
            };
            scope.spawn(look).join().unwrap()
        })
    }

    #[track_caller]
    fn until_free(&self, key: &str, limit: Duration) {
        time::eventually(limit, &format!("`{key}` is free"), || !self.is_held(key));
    }
}
