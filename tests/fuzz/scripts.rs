//! Nonsense in the keys of locks: every script replies or names the type that is wrong, removes no other
//! holder, and grants nothing beside a holder that excludes it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lock_model::scripts;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use redis::{Commands, Connection, RedisResult, Script, Value};

use crate::nonsense::{BAND, Key, MARKED, TOKENS, Words, nonsense, one};
use crate::{number, rng};

const LOCK: &str = "lock:hot";
const QUEUE: &str = "lock:::queue:hot";
const WAITERS: &str = "lock:::waiters:hot";
const TOMBSTONE: &str = "lock:::gone:hot";
const FENCE: &str = "lock:::fence";

/// The tokens of clients that send requests.
const CLIENTS: [&[u8]; 5] = [
    b"d15710cc0000800080000000000000001",
    b"d15710cc0000800080000000000000002",
    b"d15710cc0000800080000000000000003/2",
    b"d15710cc0000800080000000000000004/3",
    b"d15710cc0000800080000000000000005/2047",
];

/// The shortest lease that a script grants.
const GRANT: Duration = Duration::from_secs(2);

/// By how many milliseconds a key outlasts the lease.
const GRACE: i64 = 500;

/// A script, its keys, and its arguments, of which `?` stands for the caller's token.
type Request = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const ALL: [&str; 3] = [LOCK, QUEUE, WAITERS];
const ALL_AND_TOMBSTONE: [&str; 4] = [LOCK, QUEUE, WAITERS, TOMBSTONE];

const REVOKED: [&str; 5] = [LOCK, QUEUE, WAITERS, TOMBSTONE, FENCE];

const REQUESTS: [Request; 17] = [
    ("take", scripts::TAKE, &[LOCK, QUEUE], &["20000", "?"]),
    (
        "wait",
        scripts::WAIT,
        &ALL_AND_TOMBSTONE,
        &["?", "20000", "hears", "25000000", "190000", "0"],
    ),
    ("cancel", scripts::CANCEL, &ALL_AND_TOMBSTONE, &["?", "0"]),
    ("release", scripts::RELEASE, &ALL, &["?"]),
    ("revoke", scripts::REVOKE, &REVOKED, &["?", "0", "1"]),
    ("renew", scripts::RENEW, &[LOCK], &["?", "20000"]),
    (
        "fencing_token",
        scripts::FENCING_TOKEN,
        &[LOCK, FENCE],
        &["?"],
    ),
    (
        "downgrade",
        scripts::DOWNGRADE,
        &ALL,
        &["?", "d15710cc000080008000000000000000a/2047", "20000"],
    ),
    (
        "vote of a waiter",
        scripts::VOTE,
        &ALL,
        &["?", "20000", "?"],
    ),
    (
        "vote of a newcomer",
        scripts::VOTE,
        &ALL,
        &["?", "20000", ""],
    ),
    ("vote", scripts::VOTE, &[LOCK], &["?", "20000"]),
    (
        "observe",
        scripts::OBSERVE,
        &ALL,
        &["?", "20000", "hears", "25000000", "190000"],
    ),
    (
        "leave",
        scripts::LEAVE_QUEUE,
        &ALL_AND_TOMBSTONE,
        &["?", "0"],
    ),
    (
        "release and notify",
        scripts::RELEASE_AND_NOTIFY,
        &ALL,
        &["?"],
    ),
    (
        "revoke and notify",
        scripts::REVOKE_AND_NOTIFY,
        &REVOKED,
        &["?", "0", "1"],
    ),
    ("withdraw", scripts::WITHDRAW, &[LOCK], &["?"]),
    (
        "raise",
        scripts::RAISE_FENCING_TOKEN,
        &[LOCK, FENCE],
        &["?", "5"],
    ),
];

/// The holders of the lock and their limits; `None` for a holder of no known kind.
type Holders = BTreeMap<Vec<u8>, Option<u64>>;

struct Lab {
    connection: Connection,
    scripts: Vec<Script>,
    rng: Rng,
    /// What was done in this round, which began at this time.
    log: Vec<String>,
    start: Instant,
}

impl Lab {
    fn time(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.connection).unwrap();
        seconds * 1000 + micros / 1000
    }

    fn send(&mut self, words: &Words) {
        let mut command = redis::cmd(&String::from_utf8_lossy(&words[0]));
        command.arg(&words[1..]);
        let reply: RedisResult<Value> = command.query(&mut self.connection);
        let shown: Vec<_> = words
            .iter()
            .map(|word| word.escape_ascii().to_string())
            .collect();
        let refused = if reply.is_err() { ", refused" } else { "" };
        self.log.push(shown.join(" ") + refused);
    }

    /// Plays one round: nonsense, then requests.
    fn round(&mut self) {
        self.log.clear();
        self.start = Instant::now();
        let () = self.connection.del(&ALL).unwrap();
        for _ in 0..1 + self.rng.below(8) {
            let keys = [
                (Key::Lock, LOCK),
                (Key::Queue, QUEUE),
                (Key::Waiters, WAITERS),
            ];
            let (key, name) = keys[self.rng.below(3) as usize];
            let now = self.time();
            let words = nonsense(key, name, &mut self.rng, now);
            self.send(&words);
        }
        if self.rng.one_in(3) {
            let ttl = b"60000".to_vec();
            self.send(&vec![b"PEXPIRE".to_vec(), LOCK.into(), ttl]);
        }
        for _ in 0..6 {
            self.request();
        }
    }

    fn request(&mut self) {
        let n = self.rng.below(REQUESTS.len() as u64) as usize;
        let (what, _, keys, arguments) = REQUESTS[n];
        let token = match self.rng.one_in(4) {
            true => one(&TOKENS, &mut self.rng),
            false => one(&CLIENTS, &mut self.rng),
        };
        // No client has the name of a reservation, or a marked token.
        let token = match token {
            b"::reserved" | MARKED => CLIENTS[0],
            _ => token,
        };
        let before = self.holders();
        let mut call = self.scripts[n].prepare_invoke();
        call.key(keys);
        for argument in arguments {
            match *argument {
                "?" => call.arg(token),
                other => call.arg(other),
            };
        }
        let reply: RedisResult<Value> = call.invoke(&mut self.connection);
        let token_text = token.escape_ascii();
        self.log
            .push(format!("{what} of `{token_text}`: {reply:?}"));
        let log = || self.log.join("\n");
        if let Err(error) = &reply {
            let is_clear = error.to_string().contains("WRONGTYPE");
            assert!(is_clear, "{error}\n{}", log());
        }
        let after = holders(&mut self.connection);
        if self.start.elapsed() > GRANT / 2 {
            // The machine stalled, and leases may have ended.
            return;
        }
        for holder in before.keys() {
            let stays = after.contains_key(holder) || holder == token || before[holder].is_none();
            let name = holder.escape_ascii();
            assert!(stays, "`{name}` lost the lock to another\n{}", log());
        }
        for (holder, limit) in after
            .iter()
            .filter(|(holder, _)| !before.contains_key(*holder))
        {
            let lowest = after.values().flatten().min().copied();
            let most = limit.unwrap_or(1).min(lowest.unwrap_or(u64::MAX));
            let name = holder.escape_ascii();
            assert!(
                after.len() as u64 <= most,
                "`{name}` is one too many\n{}",
                log()
            );
        }
        let acquired = match (what, &reply) {
            ("take", Ok(reply)) => *reply == Value::Int(1),
            ("wait", Ok(Value::Array(reply))) => matches!(reply[0], Value::Int(1 | 3)),
            ("vote" | "vote of a waiter" | "vote of a newcomer", Ok(Value::Array(reply))) => {
                reply[0] == Value::Int(1)
            }
            _ => false,
        };
        assert!(
            !acquired || after.contains_key(token),
            "it does not hold the lock\n{}",
            log()
        );
    }

    fn holders(&mut self) -> Holders {
        holders(&mut self.connection)
    }
}

/// Reads the holders whose leases have not ended. Nonsense that is no holder counts as one of no known kind.
fn holders(connection: &mut Connection) -> Holders {
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
    let now = (seconds * 1000) as f64;
    let kind: String = redis::cmd("TYPE").arg(LOCK).query(connection).unwrap();
    match &*kind {
        "none" => Holders::new(),
        "string" => {
            let token: Vec<u8> = connection.get(LOCK).unwrap();
            let left: i64 = connection.pttl(LOCK).unwrap();
            match token.strip_suffix(b"+") {
                _ if token == b"::reserved" => Holders::new(),
                Some(_) if (0..=GRACE).contains(&left) => Holders::new(),
                Some(token) => [(token.to_vec(), Some(limit_of(token)))].into(),
                None => [(token.clone(), Some(limit_of(&token)))].into(),
            }
        }
        "zset" => {
            let members: Vec<(Vec<u8>, f64)> = connection.zrange_withscores(LOCK, 0, -1).unwrap();
            let holder = |(member, score): (Vec<u8>, f64)| {
                let (limit, end) = ((score / BAND).floor(), score.rem_euclid(BAND));
                match (2.0..2048.0).contains(&limit) {
                    true => (end > now).then_some((member, Some(limit as u64))),
                    false => Some((member, None)),
                }
            };
            members.into_iter().filter_map(holder).collect()
        }
        _ => [(b"a foreign value".to_vec(), None)].into(),
    }
}

/// Returns the limit at the end of a token.
fn limit_of(token: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(token);
    let limit = text
        .split_once('/')
        .filter(|(id, _)| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let limit = limit.and_then(|(_, limit)| limit.parse().ok());
    limit
        .filter(|limit| (2..=2047).contains(limit))
        .unwrap_or(1)
}

#[test]
fn scripts_reply_to_stored_nonsense() {
    let server = Server::start();
    let url = format!("redis+unix://{}", server.socket().display());
    let client = redis::Client::open(url).unwrap();
    let mut listener = client.get_connection().unwrap();
    let mut listener = listener.as_pubsub();
    // Waiters with this channel are granted the lock.
    listener.subscribe("hears").unwrap();
    let mut lab = Lab {
        connection: client.get_connection().unwrap(),
        scripts: REQUESTS
            .iter()
            .map(|(_, text, ..)| Script::new(text))
            .collect(),
        rng: rng(),
        log: Vec::new(),
        start: Instant::now(),
    };
    for _ in 0..number("LOCK_FUZZ").unwrap_or(2000) {
        lab.round();
    }
    server.query::<()>("FLUSHALL");
}
