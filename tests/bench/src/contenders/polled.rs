//! The usual semaphore on Redis: a sorted set of the holders, scored by the ends of their leases, which
//! waiters poll every 50 ms (as `distkit` polls its locks), or every 10 ms (as `redis-semaphore` does on
//! Node.js). No crate for Rust has one. It renews nothing, and grants in no order.

use super::{Contender, PERMITS, Retry, TTL};
use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ACQUIRE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1";

pub struct Polled {
    connection: MultiplexedConnection,
    acquire: Script,
    interval: Duration,
    tokens: AtomicU64,
}

pub struct Hold {
    key: String,
    token: String,
}

impl Contender for Polled {
    type Hold = Hold;

    const SHARED: bool = true;

    async fn connect(url: &str, retry: Retry) -> Polled {
        let client = Client::open(url).unwrap();
        Polled {
            connection: client.get_multiplexed_async_connection().await.unwrap(),
            acquire: Script::new(ACQUIRE),
            interval: match retry {
                Retry::Default => Duration::from_millis(50),
                Retry::Tuned => Duration::from_millis(10),
            },
            tokens: AtomicU64::new(0),
        }
    }

    async fn acquire(&self, key: &str) -> Hold {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}-{number}", process::id());
        let mut request = self.acquire.key(key);
        request.arg(PERMITS).arg(TTL.as_millis() as u64).arg(&token);
        let mut connection = self.connection.clone();
        loop {
            let acquired: bool = request.invoke_async(&mut connection).await.unwrap();
            if acquired {
                break;
            }
            tokio::time::sleep(self.interval).await;
        }
        Hold {
            key: key.to_owned(),
            token,
        }
    }

    async fn release(&self, hold: Hold) {
        let mut release = redis::cmd("ZREM");
        release.arg(hold.key).arg(hold.token);
        let mut connection = self.connection.clone();
        let released: bool = release.query_async(&mut connection).await.unwrap();
        assert!(released);
    }
}
