use super::{Contender, TTL};
use rslock::{LockGuard, LockManager};

pub struct Rslock(LockManager);

impl Contender for Rslock {
    const NAME: &'static str = "rslock";
    type Hold = LockGuard;

    async fn connect(url: &str) -> Rslock {
        Rslock(LockManager::new(vec![url]))
    }

    async fn acquire(&self, key: &str) -> LockGuard {
        self.0.acquire(key, TTL).await.unwrap()
    }

    async fn release(&self, hold: LockGuard) {
        hold.release().await;
    }
}
