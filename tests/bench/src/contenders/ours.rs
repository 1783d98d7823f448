use super::{Contender, Retry, TTL};
use lock_runtime::{Config, LockGuard, LockManager, Release};
use std::time::Duration;

pub struct Ours(LockManager);

/// A release is not waited for.
pub struct Background(Ours);

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

impl Contender for Background {
    type Hold = LockGuard;

    async fn connect(url: &str, _: Retry) -> Background {
        let config = Config::new(url).release(Release::Background);
        Background(Ours(LockManager::connect(config).await.unwrap()))
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        self.0.acquire(key).await
    }

    async fn release(&self, hold: LockGuard) {
        self.0.release(hold).await;
    }
}
