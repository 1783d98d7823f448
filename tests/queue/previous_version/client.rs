//! A client of the version before shared locks, and one that knows neither queues nor shared locks.

use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, Script, ScriptInvocation};

use super::scripts::Scripts;
use crate::queue::lua::{ALIVE, Names, TOMBSTONE, channel, connect, tombstone};
use crate::queue::subscription::Subscription;
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, eventually, millis};

/// The ttl of every lock, in milliseconds.
const TTL: u64 = 20_000;
/// How long a woken waiter counts as alive, in microseconds.
const WOKEN: u64 = 190_000;
/// How much earlier than the server a client counts its lease as ended.
const MARGIN: Duration = millis(10);

/// A lock that a client holds until its lease ends.
pub struct Held {
    pub token: String,
    pub until: Instant,
}

pub trait Client: Send {
    /// Acquires the lock, or gives up after `patience`.
    fn acquire(&mut self, patience: Duration) -> Option<Held>;

    /// Releases the lock. Returns `true` if the client held it.
    fn release(&mut self, held: &Held) -> bool;
}

/// Returns the end of a lease that was requested at that time.
fn end(sent: Instant, lease: u64) -> Instant {
    (sent + millis(lease)).checked_sub(MARGIN).unwrap_or(sent)
}

fn token(rng: &mut Rng) -> String {
    let mut half = || rng.below(u64::MAX);
    format!("{:016x}{:016x}", half(), half())
}

pub struct PreviousClient {
    scripts: Scripts,
    names: Names,
    connection: Connection,
    subscription: Subscription,
    channel: String,
    rng: Rng,
}

impl PreviousClient {
    pub fn new(server: &Server, key: &str, mut rng: Rng) -> Self {
        let channel = channel(&token(&mut rng));
        Self {
            scripts: Scripts::load(),
            names: Names::of(key),
            connection: connect(server),
            subscription: Subscription::open(server, std::slice::from_ref(&channel)),
            channel,
            rng,
        }
    }

    /// Enters the queue, or polls. Returns the lock if that acquired it.
    pub fn wait(&mut self, token: &str) -> Option<Held> {
        let sent = Instant::now();
        let mut call = self.scripts.wait.prepare_invoke();
        add_keys(&mut call, &self.names);
        call.key(tombstone(token)).arg(token).arg(TTL);
        call.arg(&self.channel).arg(ALIVE).arg(WOKEN).arg(0);
        let reply: Vec<i64> = call.invoke(&mut self.connection).unwrap();
        match reply[..] {
            [1 | 3, left] => Some(Held {
                token: token.to_owned(),
                until: end(sent, left as u64),
            }),
            [2, ..] => None,
            _ => panic!("a wait was answered with {reply:?}"),
        }
    }

    /// Returns the first word of the next message for that token.
    pub fn heard(&mut self, token: &str) -> Option<String> {
        let mut words = self
            .subscription
            .heard()
            .into_iter()
            .filter_map(|(_, text)| {
                let mut words = text.split(' ');
                let word = words.next()?.to_owned();
                (words.next() == Some(token)).then_some(word)
            });
        // A grant counts more than the messages before it.
        let words: Vec<_> = words.by_ref().collect();
        let grant = words.iter().find(|word| *word == "grant");
        grant.or(words.first()).cloned()
    }

    /// Waits for the message that the token was granted the lock.
    #[track_caller]
    pub fn until_granted(&mut self, token: &str) {
        eventually(NOISE, "it is granted the lock", || {
            self.heard(token).as_deref() == Some("grant")
        });
    }

    /// Renews a lock that was granted.
    pub fn renew(&mut self, token: &str) -> Option<Held> {
        let sent = Instant::now();
        let mut call = self.scripts.renew.prepare_invoke();
        call.key(&self.names.lock).arg(token).arg(TTL);
        let renewed: [u8; 1] = call.invoke(&mut self.connection).unwrap();
        (renewed == [1]).then(|| Held {
            token: token.to_owned(),
            until: end(sent, TTL),
        })
    }

    fn cancel(&mut self, token: &str) {
        let mut call = self.scripts.cancel.prepare_invoke();
        add_keys(&mut call, &self.names);
        call.key(tombstone(token)).arg(token).arg(TOMBSTONE);
        let _: u8 = call.invoke(&mut self.connection).unwrap();
    }
}

impl Client for PreviousClient {
    fn acquire(&mut self, patience: Duration) -> Option<Held> {
        let token = token(&mut self.rng);
        let start = Instant::now();
        if set(&mut self.connection, &self.names.lock, &token) {
            let until = end(start, TTL);
            return Some(Held { token, until });
        }
        loop {
            if let Some(held) = self.wait(&token) {
                return Some(held);
            }
            // The first waiter of that version polls at least this often.
            let polls = Instant::now() + millis(500);
            while Instant::now() < polls {
                if start.elapsed() > patience {
                    self.cancel(&token);
                    return None;
                }
                thread::sleep(millis(2));
                match self.heard(&token).as_deref() {
                    Some("grant") => match self.renew(&token) {
                        Some(held) => return Some(held),
                        None => break,
                    },
                    Some(_) => break,
                    None => {}
                }
            }
        }
    }

    fn release(&mut self, held: &Held) -> bool {
        let mut call = self.scripts.release.prepare_invoke();
        add_keys(&mut call, &self.names);
        let digits: String = call.arg(&held.token).invoke(&mut self.connection).unwrap();
        digits == "1"
    }
}
fn add_keys(call: &mut ScriptInvocation, names: &Names) {
    call.key(&names.lock).key(&names.queue).key(&names.waiters);
}

/// `SET NX PX` and compare-and-delete.
pub struct PlainClient {
    lock: String,
    connection: Connection,
    rng: Rng,
    delete: Script,
}

impl PlainClient {
    pub fn new(server: &Server, key: &str, rng: Rng) -> Self {
        let source = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        Self {
            lock: Names::of(key).lock,
            connection: connect(server),
            rng,
            delete: Script::new(source),
        }
    }
}

impl Client for PlainClient {
    fn acquire(&mut self, patience: Duration) -> Option<Held> {
        let (token, start) = (token(&mut self.rng), Instant::now());
        loop {
            let sent = Instant::now();
            if set(&mut self.connection, &self.lock, &token) {
                let until = end(sent, TTL);
                return Some(Held { token, until });
            }
            if start.elapsed() > patience {
                return None;
            }
            thread::sleep(millis(1));
        }
    }

    fn release(&mut self, held: &Held) -> bool {
        let mut call = self.delete.key(&self.lock);
        match call.arg(&held.token).invoke(&mut self.connection) {
            Ok(deleted) => deleted,
            // Its lease has ended, and several clients share the lock.
            Err(error) if error.code() == Some("WRONGTYPE") => false,
            Err(error) => panic!("{error}"),
        }
    }
}

fn set(connection: &mut Connection, lock: &str, token: &str) -> bool {
    let mut command = redis::cmd("SET");
    command.arg(lock).arg(token).arg("NX").arg("PX").arg(TTL);
    let reply: Option<String> = command.query(connection).unwrap();
    reply.is_some()
}
