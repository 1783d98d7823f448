//! `rslock`, which retries after a random 0 to 200 ms; tuned, after 0 to 20 ms. Three times, and then three
//! times again.

use super::{Contender, Retry, TTL};
use rslock::{LockGuard, LockManager};
use std::time::Duration;

pub struct Rslock(LockManager);

impl Contender for Rslock {
    type Hold = LockGuard;

    async fn connect(url: &str, retry: Retry) -> Rslock {
        let mut manager = LockManager::new(url.split(' ').collect());
        if retry == Retry::Tuned {
            manager.set_retry(3, Duration::from_millis(20));
        }
        Rslock(manager)
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        self.0.acquire(key, TTL).await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        hold.release().await;
    }
}
