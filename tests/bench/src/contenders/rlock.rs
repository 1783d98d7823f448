//! `rlock`, which retries every 100 ms.

use super::{Contender, Retry, TTL};
use rlock::AcquireOptions;
use rlock::async_lock::{RLock, RLockGuard};
use std::time::Duration;

pub struct Rlock {
    manager: RLock,
    options: AcquireOptions,
}

impl Contender for Rlock {
    type Hold = RLockGuard;

    async fn connect(url: &str, retry: Retry) -> Rlock {
        let mut options = AcquireOptions::builder().ttl(TTL);
        if retry == Retry::Tuned {
            options = options.retry_interval(Duration::from_millis(10));
        }
        Rlock {
            manager: RLock::new(url).await.unwrap(),
            options: options.build().unwrap(),
        }
    }

    async fn acquire(&self, key: &str) -> RLockGuard {
        let options = self.options.clone();
        let lock = self.manager.acquire_mutex_with_options(key, options);
        lock.await.unwrap()
    }

    async fn release(&self, mut hold: RLockGuard) {
        hold.release().await.unwrap();
    }
}
