//! Clients that only use `SET NX PX` and compare-and-delete, beside all kinds of locks of this library.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lock_runtime::Lock;
use redis::{Connection, Script};
use tokio::task::JoinSet;

use super::fixture::{LONG, managers, waiter};
use super::lua::{Names, connect};
use lock_test_support::exclusion::{Exclusion, UNLIMITED};
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::{millis, soon};

/// The ttl of every plain lock, in milliseconds.
const TTL: u64 = 20_000;
/// How much earlier than the server a plain client counts its lease as ended.
const MARGIN: Duration = millis(10);
/// How often each kind of client holds the lock.
const HOLDS: usize = 40;

/// A lock that a client holds until its lease ends.
struct Held {
    token: String,
    until: Instant,
}

/// Returns the end of a lease that was requested at that time.
fn end(sent: Instant, lease: u64) -> Instant {
    (sent + millis(lease)).checked_sub(MARGIN).unwrap_or(sent)
}

fn token(rng: &mut Rng) -> String {
    let mut half = || rng.below(u64::MAX);
    format!("{:016x}{:016x}", half(), half())
}

struct PlainClient {
    lock: String,
    connection: Connection,
    rng: Rng,
    delete: Script,
}

impl PlainClient {
    fn new(server: &Server, key: &str, rng: Rng) -> Self {
        let source = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        Self {
            lock: Names::of(key).lock,
            connection: connect(server),
            rng,
            delete: Script::new(source),
        }
    }

    /// Acquires the lock, or gives up after `patience`.
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

    /// Releases the lock. Returns `true` if the client held it.
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

/// Makes a lock one of another kind.
type Change = fn(Lock) -> Lock;

/// The clients of one kind.
struct Kind {
    name: &'static str,
    limit: usize,
    held: AtomicUsize,
}

impl Kind {
    fn new(name: &'static str, limit: usize) -> Arc<Self> {
        let held = AtomicUsize::new(0);
        Arc::new(Self { name, limit, held })
    }
}

/// What all clients have in common.
#[derive(Clone)]
struct Work {
    exclusion: Arc<Exclusion>,
    kinds: Arc<[Arc<Kind>]>,
}

impl Work {
    fn is_done(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.all(|kind| kind.held.load(Relaxed) >= HOLDS)
    }

    /// Uses the lock until every kind of client has held it often enough.
    fn run(&self, kind: &Kind, client: &mut PlainClient, rng: &mut Rng) {
        while !self.is_done() {
            thread::sleep(pause(rng));
            let Some(held) = client.acquire(patience(rng)) else {
                continue;
            };
            let holding = self.exclusion.enter(kind.name, kind.limit, held.until);
            thread::sleep(millis(rng.below(4)));
            drop(holding);
            let released = client.release(&held);
            assert!(
                released || Instant::now() >= held.until,
                "{} lost the lock",
                kind.name
            );
            kind.held.fetch_add(1, Relaxed);
        }
    }

    /// Uses the lock through this library.
    async fn run_library(&self, kind: &Kind, lock: impl Fn() -> Lock, mut rng: Rng) {
        while !self.is_done() {
            tokio::time::sleep(pause(&mut rng)).await;
            let patience = patience(&mut rng);
            let guard = match lock().wait(patience).acquire().await {
                Ok(guard) => guard,
                Err(error) if error.is_busy() => continue,
                // A short wait may be over before the server has answered.
                Err(error) if error.is_unavailable() && patience < LONG => continue,
                Err(error) => panic!("{}: {error}", kind.name),
            };
            let until = Instant::now() + guard.remaining();
            let holding = self.exclusion.enter(kind.name, kind.limit, until);
            tokio::time::sleep(millis(rng.below(4))).await;
            drop(holding);
            let until = Instant::now() + guard.remaining();
            let released = guard.release().await;
            assert!(
                released.is_ok() || Instant::now() >= until,
                "{}: {released:?}",
                kind.name
            );
            kind.held.fetch_add(1, Relaxed);
        }
    }
}

/// Long enough that the lock is sometimes free.
fn pause(rng: &mut Rng) -> Duration {
    millis(10 + rng.below(60))
}

/// Some clients give up soon.
fn patience(rng: &mut Rng) -> Duration {
    match rng.one_in(8) {
        true => millis(rng.below(30)),
        false => LONG,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_clients_and_all_kinds_of_locks_exclude_each_other() {
    let server = Server::start();
    let plain = Kind::new("a plain client", 1);
    let ours: [(_, Change); 3] = [
        (Kind::new("a writer", 1), |lock| lock),
        (Kind::new("a reader", UNLIMITED), |lock| lock.read()),
        (Kind::new("one of two", 2), |lock| lock.permits(2)),
    ];
    let kinds = ours.iter().map(|(kind, _)| kind);
    let work = Work {
        exclusion: Arc::default(),
        kinds: kinds.chain([&plain]).cloned().collect(),
    };
    let mut rng = Rng::random();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let mut client = PlainClient::new(&server, "door", rng.split());
        let (work_of_it, kind, mut its) = (work.clone(), plain.clone(), rng.split());
        threads.push(thread::spawn(move || {
            work_of_it.run(&kind, &mut client, &mut its)
        }));
    }
    let mut tasks = JoinSet::new();
    for locks in managers(&server.url(), 2).await {
        for (kind, change) in &ours {
            let (locks, work, kind, change) = (locks.clone(), work.clone(), kind.clone(), *change);
            let rng = rng.split();
            tasks.spawn(async move {
                let lock = || change(locks.lock("door"));
                work.run_library(&kind, lock, rng).await;
            });
        }
    }
    soon(tasks.join_all()).await;
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A release that comes after its lease has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_release_of_a_plain_client_affects_no_reader() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let mut client = PlainClient::new(&server, "door", Rng::random());
    let held = client.acquire(LONG).unwrap();
    let mut readers = Vec::new();
    for (before, locks) in managers.iter().enumerate() {
        readers.push(waiter(locks.lock("door").read().wait(LONG)));
        server.until_waiting("door", before + 1);
    }
    server.query::<()>("PEXPIRE lock:door 1");
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(soon(reader).await.unwrap().unwrap());
    }
    assert_eq!(server.query::<String>("TYPE lock:door"), "zset");
    assert!(!client.release(&held));
    for guard in guards {
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    server.until_gone("lock:door");
}
