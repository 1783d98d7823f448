use super::{Contender, Retry, TTL};
use lock_runtime::{LockGuard, LockManager};
use std::time::Duration;

pub struct Ours(LockManager);

impl Contender for Ours {
    type Hold = LockGuard;

    async fn connect(url: &str, _: Retry) -> Ours {
        Ours(LockManager::connect(url).await.unwrap())
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        let lock = self.0.lock(key).ttl(TTL).wait(Duration::MAX);
        lock.acquire().await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        hold.release().await.unwrap();
    }
}
