//! Calls the library's own scripts directly.

use lock_model::scripts;
use redis::{Connection, FromRedisValue, RedisResult, Script, Value};

use lock_test_support::server::Server;

/// How long a claim counts as alive, in microseconds, and how long a tombstone lasts.
pub const ALIVE: u64 = 25_000_000;
pub const TOMBSTONE: u64 = 30_000;
/// How long a woken waiter counts as alive, in microseconds.
pub const WOKEN: u64 = 2_000_000;

pub struct Lua {
    pub wait: Script,
    pub cancel: Script,
    pub release: Script,
    pub renew: Script,
    pub fence: Script,
}

impl Lua {
    pub fn new() -> Self {
        Self {
            wait: Script::new(scripts::WAIT),
            cancel: Script::new(scripts::CANCEL),
            release: Script::new(scripts::RELEASE),
            renew: Script::new(scripts::RENEW),
            fence: Script::new(scripts::FENCING_TOKEN),
        }
    }
}

/// The keys of one lock on the server.
#[derive(Clone)]
pub struct Names {
    pub lock: String,
    pub queue: String,
    pub waiters: String,
}

impl Names {
    pub fn of(key: &str) -> Self {
        Self {
            lock: format!("lock:{key}"),
            queue: format!("lock:::queue:{key}"),
            waiters: format!("lock:::waiters:{key}"),
        }
    }
}

pub fn tombstone(token: &str) -> String {
    format!("lock:::gone:{token}")
}

pub fn channel(token: &str) -> String {
    format!("lock:::grants:{token}")
}

/// Connects over the Unix socket, so that tests do not count the connection as the library's.
pub fn connect(server: &Server) -> Connection {
    let url = format!("redis+unix://{}", server.socket().display());
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

/// One client's claim to one lock.
pub struct Claim<'a> {
    pub names: &'a Names,
    pub token: &'a str,
    pub ttl: u64,
}

impl Lua {
    /// Returns the numbers of the reply, without the holder's token.
    pub fn wait(
        &self,
        to: &mut Connection,
        claim: &Claim,
        void_after: u64,
    ) -> RedisResult<Vec<i64>> {
        let Claim { names, token, ttl } = claim;
        let mut call = self.wait.prepare_invoke();
        call.key(&names.lock)
            .key(&names.queue)
            .key(&names.waiters)
            .key(tombstone(token));
        call.arg(token)
            .arg(ttl)
            .arg(channel(token))
            .arg(ALIVE)
            .arg(WOKEN)
            .arg(void_after);
        let reply: Vec<Value> = call.invoke(to)?;
        let number = |value: &Value| match value {
            Value::Int(number) => Some(*number),
            _ => None,
        };
        Ok(reply.iter().map_while(number).collect())
    }

    pub fn cancel(&self, to: &mut Connection, claim: &Claim, stands: u64) -> RedisResult<bool> {
        let Claim { names, token, .. } = claim;
        let mut call = self.cancel.prepare_invoke();
        call.key(&names.lock)
            .key(&names.queue)
            .key(&names.waiters)
            .key(tombstone(token));
        call.arg(token).arg(stands);
        call.invoke(to)
    }

    pub fn release(&self, to: &mut Connection, claim: &Claim) -> RedisResult<bool> {
        let Claim { names, token, .. } = claim;
        let mut call = self.release.prepare_invoke();
        call.key(&names.lock).key(&names.queue).key(&names.waiters);
        call.arg(token).invoke(to)
    }
}

/// Sends a command whose arguments may contain spaces.
#[track_caller]
pub fn ask<T: FromRedisValue>(to: &mut Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(word);
    }
    command
        .query(to)
        .unwrap_or_else(|error| panic!("{words:?}: {error}"))
}
