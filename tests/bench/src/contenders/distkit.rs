//! `distkit`, which retries every 50 ms. It needs a new mutex for every acquisition: a mutex has a fixed
//! owner, so two tasks that share one do not exclude each other.

use super::{Contender, Retry, TTL};
use distkit::DistkitRedisKey;
use distkit::lock::{LockOptions, Mutex, MutexGuard};
use redis::aio::ConnectionManager;
use std::time::Duration;

pub struct Distkit {
    connection: ConnectionManager,
    retry: Retry,
}

impl Contender for Distkit {
    type Hold = MutexGuard;

    async fn connect(url: &str, retry: Retry) -> Distkit {
        let client = redis::Client::open(url).unwrap();
        Distkit {
            connection: client.get_connection_manager().await.unwrap(),
            retry,
        }
    }

    async fn acquire(&self, key: &str) -> MutexGuard {
        let key = DistkitRedisKey::try_from(key.to_owned()).unwrap();
        let mut options = LockOptions::builder(key, self.connection.clone()).ttl(TTL);
        if self.retry == Retry::Tuned {
            options = options.retry_interval(Duration::from_millis(10));
        }
        Mutex::new(options.build()).lock().await.unwrap()
    }

    async fn release(&self, hold: MutexGuard) {
        hold.release().await.unwrap();
    }
}
