//! Clients of the version before shared locks, and clients that only use `SET NX PX`, beside this library.
//!
//! `scripts/` holds that version's scripts as they were.

mod client;
mod scripts;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use lock_runtime::{Lock, LockGuard, LockManager};
use tokio::task::JoinSet;

use super::fixture::{LONG, Waiter, managers, waiter, waits};
use client::{Client, PlainClient, PreviousClient};
use lock_test_support::exclusion::{Exclusion, UNLIMITED};
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Stopwatch, eventually, millis, within};

/// The lease of a lock that the server grants by itself.
const GRANT: Duration = millis(2000);
/// How often each kind of client holds the lock.
const HOLDS: usize = 40;

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
    fn run(&self, kind: &Kind, client: &mut impl Client, rng: &mut Rng) {
        while !self.is_done() {
            thread::sleep(pause(rng));
            let waiting = self.exclusion.wait();
            let Some(held) = client.acquire(patience(rng)) else {
                continue;
            };
            let holding = self.exclusion.enter(kind.name, kind.limit, held.until);
            drop(waiting);
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
            let waiting = self.exclusion.wait();
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
            drop(waiting);
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
async fn clients_of_all_versions_exclude_each_other() {
    let server = Server::start();
    let (previous, plain) = (
        Kind::new("a previous client", 1),
        Kind::new("a plain one", 1),
    );
    let ours: [(_, Change); 3] = [
        (Kind::new("a writer", 1), |lock| lock),
        (Kind::new("a reader", UNLIMITED), |lock| lock.read()),
        (Kind::new("one of two", 2), |lock| lock.permits(2)),
    ];
    let kinds = ours.iter().map(|(kind, _)| kind);
    let work = Work {
        exclusion: Arc::default(),
        kinds: kinds.chain([&previous, &plain]).cloned().collect(),
    };
    let mut rng = Rng::random();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let mut client = PreviousClient::new(&server, "door", rng.split());
        let (work_of_it, kind, mut its) = (work.clone(), previous.clone(), rng.split());
        threads.push(thread::spawn(move || {
            work_of_it.run(&kind, &mut client, &mut its)
        }));
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
    within(LONG, tasks.join_all()).await;
    for thread in threads {
        thread.join().unwrap();
    }
    let gap = work.exclusion.longest_gap();
    println!("no client held the lock for at most {gap:?}, though some waited");
    assert!(gap < GRANT + NOISE, "{gap:?}");
}

fn previous(server: &Server) -> PreviousClient {
    PreviousClient::new(server, "door", Rng::random())
}

fn reads(locks: &LockManager) -> Waiter {
    waiter(locks.lock("door").read().wait(LONG))
}

/// Lets readers wait behind one another.
async fn readers(server: &Server, managers: &[LockManager]) -> Vec<Waiter> {
    let mut readers = Vec::new();
    for locks in managers {
        let before = server.waiting("door");
        readers.push(reads(locks));
        server.until_waiting("door", before + 1);
    }
    readers
}

async fn all(limit: Duration, waiters: Vec<Waiter>) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(within(limit, waiter).await.unwrap().unwrap());
    }
    assert!(guards.iter().all(LockGuard::is_valid));
    guards
}

/// A release of the previous version grants the lock to one waiter only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_of_previous_version_lets_neighboring_readers_enter() {
    let server = Server::start();
    let managers = managers(&server.url(), 3).await;
    let mut client = previous(&server);
    let held = client.acquire(LONG).unwrap();
    let readers = readers(&server, &managers).await;
    assert!(client.release(&held));
    let guards = all(NOISE, readers).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_of_previous_version_enters_after_all_readers_before_it() {
    let server = Server::start();
    let managers = managers(&server.url(), 3).await;
    let mut client = previous(&server);
    let first = managers[0].lock("door").read().acquire().await.unwrap();
    let second = managers[1].lock("door").read().acquire().await.unwrap();
    assert!(client.wait("abc").is_none());
    let late = reads(&managers[2]);
    server.until_waiting("door", 2);
    first.release().await.unwrap();
    assert!(client.wait("abc").is_none(), "one reader is left");
    second.release().await.unwrap();
    client.until_granted("abc");
    let held = client.renew("abc").expect("it was granted the lock");
    let writer = waits(&managers[1], "door");
    server.until_waiting("door", 2);
    assert!(!late.is_finished());
    assert!(client.release(&held));
    let late = within(NOISE, late).await.unwrap().unwrap();
    assert!(client.wait("abd").is_none());
    late.release().await.unwrap();
    let writer = within(NOISE, writer).await.unwrap().unwrap();
    writer.release().await.unwrap();
    client.until_granted("abd");
    let held = client.renew("abd").expect("it was granted the lock");
    assert!(client.release(&held));
}

/// A process of the previous version is granted the lock, and does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_waiter_of_previous_version_delays_readers_by_its_grant() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let mut client = previous(&server);
    let writer = managers[0].lock("door").acquire().await.unwrap();
    assert!(client.wait("abc").is_none());
    let readers = readers(&server, &managers).await;
    let start = Stopwatch::start();
    writer.release().await.unwrap();
    let guards = all(GRANT + NOISE, readers).await;
    assert!(start.elapsed() < GRANT + NOISE, "{:?}", start.elapsed());
    client.until_granted("abc");
    assert!(client.renew("abc").is_none(), "the grant has ended");
    for guard in guards {
        guard.release().await.unwrap();
    }
}

/// Requests of the previous version that come after their lease has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_requests_of_other_clients_affect_no_reader() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let mut client = previous(&server);
    let mut plain = PlainClient::new(&server, "door", Rng::random());
    for client in [&mut client as &mut dyn Client, &mut plain] {
        let held = client.acquire(LONG).unwrap();
        let readers = readers(&server, &managers).await;
        server.query::<()>("PEXPIRE lock:door 1");
        let guards = all(NOISE * 2, readers).await;
        assert_eq!(server.query::<String>("TYPE lock:door"), "zset");
        assert!(!client.release(&held));
        for guard in guards {
            assert!(guard.is_valid());
            guard.release().await.unwrap();
        }
        eventually(NOISE, "the lock is free", || !server.exists("lock:door"));
    }
}
