//! `async-redis-lock`, which retries every 100 ms.

use super::{Contender, Retry, TTL};
use async_redis_lock::{Lock, Locker, Options};
use std::time::Duration;

pub struct AsyncRedisLock {
    locker: Locker,
    options: Options,
}

impl Contender for AsyncRedisLock {
    type Hold = Lock;

    async fn connect(url: &str, retry: Retry) -> AsyncRedisLock {
        // By default it gives up after a second.
        let mut options = Options::new().ttl(TTL).extend(TTL / 3).timeout(None);
        if retry == Retry::Tuned {
            options = options.retry(Duration::from_millis(10));
        }
        AsyncRedisLock {
            locker: Locker::from_redis_url(url).await.unwrap(),
            options,
        }
    }

    async fn acquire(&self, key: &str) -> Lock {
        let lock = self.locker.acquire_with_options(&self.options, key);
        lock.await.unwrap()
    }

    async fn release(&self, hold: Lock) {
        hold.release().await.unwrap();
    }
}
