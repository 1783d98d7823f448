use super::{Contender, TTL};
use lock_runtime::{LockGuard, LockManager};

pub struct Ours(LockManager);

impl Contender for Ours {
    const NAME: &'static str = "lock-runtime";
    type Hold = LockGuard;

    async fn connect(url: &str) -> Ours {
        Ours(LockManager::connect(url).await.unwrap())
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        self.0.lock(key).ttl(TTL).acquire().await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        hold.release().await.unwrap();
    }
}
