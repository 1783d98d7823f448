//! Users of locks in whose keys another client stores nonsense. It removes no holder, and holds no lock for
//! long.

use std::sync::Arc;
use std::thread;

use lock_runtime::{Config, LockManager};
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::millis;
use redis::{Connection, RedisResult, Script, Value};

use crate::client::{KEYS, TTL, User, is_well};
use crate::nonsense::{Key, TOKENS, Words, nonsense};
use crate::report::Report;
use crate::{number, rng};

/// Writes nonsense to a lock that is free, or beside the holders that share it.
const WRITE: &str = "
    local kind = redis.call('TYPE', KEYS[1]).ok
    if kind == 'none' or kind == 'zset' and ARGV[1] == 'ZADD' then
        redis.pcall(unpack(ARGV))
        if kind == 'none' then
            redis.call('PEXPIRE', KEYS[1], 10)
        end
    end";

struct Writer {
    connection: Connection,
    write: Script,
    rng: Rng,
}

impl Writer {
    /// Writes nonsense to one key, and removes it soon.
    fn write(&mut self) {
        let key = self.rng.below(KEYS as u64);
        let lock = format!("lock:hot-{key}");
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        let names = [
            (Key::Lock, lock),
            (Key::Queue, format!("lock:::queue:hot-{key}")),
            (Key::Waiters, format!("lock:::waiters:hot-{key}")),
        ];
        let (key, name) = &names[self.rng.below(3) as usize];
        let words = nonsense(*key, name, &mut self.rng, now);
        match key {
            Key::Lock => {
                let written = self
                    .write
                    .key(name)
                    .arg(&words)
                    .invoke(&mut self.connection);
                let () = written.unwrap();
            }
            _ => {
                if self.rng.one_in(4) {
                    let _: RedisResult<Value> = self.send("DEL", name, &[]);
                }
                let command = String::from_utf8_lossy(&words[0]).into_owned();
                // The server refuses commands for a key of another type.
                let _: RedisResult<Value> = self.send(&command, name, &words[2..]);
            }
        }
        thread::sleep(millis(self.rng.below(4)));
        match key {
            Key::Lock => {
                let tokens: Words = TOKENS.map(<[u8]>::to_vec).into();
                let _: RedisResult<Value> = self.send("ZREM", name, &tokens);
            }
            _ => {
                let kind: String = self.send("TYPE", name, &[]).unwrap();
                if kind != "zset" && kind != "hash" {
                    let _: RedisResult<Value> = self.send("DEL", name, &[]);
                }
            }
        }
    }

    fn send<T: redis::FromRedisValue>(
        &mut self,
        command: &str,
        key: &str,
        arguments: &[Vec<u8>],
    ) -> RedisResult<T> {
        let mut command = redis::cmd(command);
        command.arg(key).arg(arguments).query(&mut self.connection)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_nonsense_breaks_no_exclusion() {
    let rounds = number("LOCK_FUZZ").unwrap_or(2000);
    let mut rng = rng();
    let report = Report::start();
    let server = Server::start();
    let config = Config::new(server.url()).ttl(TTL);
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(LockManager::connect(config.clone()).await.unwrap());
    }
    let checks = Some(Arc::default());
    let users = managers.iter().cycle().take(12).map(|locks| {
        let user = User {
            locks: locks.clone(),
            rng: rng.split(),
            report: report.clone(),
            replicas: 0,
            has_permits: true,
            checks: checks.clone(),
        };
        tokio::spawn(user.live())
    });
    let users: Vec<_> = users.collect();
    let socket = format!("redis+unix://{}", server.socket().display());
    let mut writer = Writer {
        connection: redis::Client::open(socket)
            .unwrap()
            .get_connection()
            .unwrap(),
        write: Script::new(WRITE),
        rng: rng.split(),
    };
    let written = tokio::task::spawn_blocking(move || (0..rounds).for_each(|_| writer.write()));
    written.await.unwrap();
    for user in users {
        assert!(!user.is_finished(), "{:?}", user.await);
        user.abort();
        assert!(user.await.is_err_and(|end| end.is_cancelled()));
    }
    let nonsense: Vec<String> = server.query("KEYS lock:*");
    for key in nonsense.iter().filter(|key| !key.contains("::fence")) {
        server.ask::<()>(&["DEL", key]).unwrap();
    }
    for locks in &managers {
        is_well(locks).await;
        locks.shutdown().await;
    }
    report.end(&[]);
    server.query::<()>("FLUSHALL");
}
