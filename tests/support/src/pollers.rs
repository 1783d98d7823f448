//! Callers that try all the time, and would overtake a queue that does not keep them out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use lock_runtime::{Lock, LockManager};
use tokio::task::JoinSet;

use crate::time::millis;

/// One caller of each process.
pub struct Pollers {
    tasks: JoinSet<()>,
    end: Arc<AtomicBool>,
    holds: Arc<AtomicUsize>,
}

impl Pollers {
    pub fn start(
        managers: impl IntoIterator<Item = LockManager>,
        lock: impl Fn(&LockManager) -> Lock,
    ) -> Self {
        let (end, holds) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut pollers = Self {
            tasks: JoinSet::new(),
            end,
            holds,
        };
        for locks in managers {
            let (lock, end, holds) = (lock(&locks), pollers.end.clone(), pollers.holds.clone());
            pollers.tasks.spawn(async move {
                while !end.load(Relaxed) {
                    if let Some(guard) = lock.clone().try_acquire().await.unwrap() {
                        holds.fetch_add(1, Relaxed);
                        guard.release().await.unwrap();
                    }
                    tokio::time::sleep(millis(1)).await;
                }
            });
        }
        pollers
    }

    /// Returns how often they have acquired the lock.
    pub fn holds(&self) -> usize {
        self.holds.load(Relaxed)
    }

    /// Waits until they have held the lock twice more.
    pub async fn take_turns(&self) {
        let before = self.holds.load(Relaxed);
        while self.holds.load(Relaxed) < before + 2 {
            tokio::time::sleep(millis(1)).await;
        }
    }

    pub async fn end(mut self) {
        self.end.store(true, Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}
