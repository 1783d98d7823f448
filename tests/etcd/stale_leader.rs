//! A leader that was frozen has leases revoked that others have kept alive meanwhile: no holder may rely on
//! those.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockGuard, LockManager};

use lock_test_support::etcd::Etcd;
use lock_test_support::etcd_gateway::ask_within;
use lock_test_support::manager::connected;
use lock_test_support::rng::Rng;
use lock_test_support::stale_leader::{StaleLeader, number};
use lock_test_support::time::{Timed, millis, patient};

use super::foreign_clients::Foreign;

const TTL: Duration = millis(2000);

/// The length of the test; `LOCK_REVOCATIONS` sets it in seconds.
const LENGTH: Duration = millis(15_000);

/// Who holds the lock, by the word of its holders.
#[derive(Default)]
struct Row {
    holders: Mutex<Holders>,
    /// The number of holds, and of those that found another holder, or were lost.
    holds: AtomicU32,
    overlaps: AtomicU32,
    lost: AtomicU32,
    ends: AtomicBool,
}

#[derive(Default)]
struct Holders {
    ours: Vec<Arc<LockGuard>>,
    etcdctl: bool,
}

impl Row {
    /// Counts the others whose leases run, if that of this guard does: its task may be late.
    fn enter(&self, holders: &Holders, guard: Option<&LockGuard>) {
        self.holds.fetch_add(1, Ordering::Relaxed);
        let valid = holders.ours.iter().filter(|it| it.is_valid()).count();
        if guard.is_none_or(LockGuard::is_valid) {
            let others = valid as u32 + u32::from(holders.etcdctl);
            self.overlaps.fetch_add(others, Ordering::Relaxed);
        }
    }

    fn holders(&self) -> MutexGuard<'_, Holders> {
        self.holders.lock().unwrap()
    }

    /// Holds the lock for that long.
    async fn hold(&self, guard: LockGuard, time: Duration) {
        let guard = Arc::new(guard);
        {
            let mut holders = self.holders();
            self.enter(&holders, Some(&guard));
            holders.ours.push(guard.clone());
        }
        let kept = tokio::time::timeout(time, guard.lost()).await.is_err();
        self.holders().ours.retain(|it| !Arc::ptr_eq(it, &guard));
        let guard = Arc::into_inner(guard).expect("it has left");
        let released = guard.release().await;
        let lost = !kept || matches!(released, Err(LockError::Lost { .. }));
        self.lost.fetch_add(u32::from(lost), Ordering::Relaxed);
    }

    /// Holds the lock again and again, for up to five seconds.
    async fn contend(&self, locks: LockManager, ttl: Duration, seed: u64) {
        let mut rng = Rng::with(seed);
        while !self.ends.load(Ordering::Relaxed) {
            let lock = locks.lock("row").ttl(ttl).wait(millis(60_000));
            // Without a leader it may fail.
            let Ok(guard) = lock.acquire().await else {
                continue;
            };
            let time = match rng.one_in(3) {
                true => rng.below(5000),
                false => rng.below(100),
            };
            self.hold(guard, millis(time)).await;
        }
    }

    /// Waits for the lock as a client of etcd's own locks, which ours must not let in early.
    fn contend_as_etcdctl(&self, etcd: &Etcd) {
        while !self.ends.load(Ordering::Relaxed) {
            // The lease lasts for longer than it waits.
            let mut foreign = Foreign::start(etcd, "lock:row");
            foreign.until_held();
            let mut holders = self.holders();
            self.enter(&holders, None);
            holders.etcdctl = true;
            drop(holders);
            self.holders().etcdctl = false;
            foreign.release();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_were_kept_alive_are_revoked_under_holders_and_waiters() {
    let _timed = Timed::start();
    let seconds = std::env::var("LOCK_REVOCATIONS").map(|seconds| seconds.parse().unwrap());
    let length = seconds.map_or(LENGTH, Duration::from_secs);
    let etcd = Arc::new(Etcd::start());
    let row = Arc::new(Row::default());
    let stale = StaleLeader::start(etcd.port(0));
    let keeper = connected(patient(etcd.url())).await;
    let ttl = millis(5000);
    let kept = keeper.lock("kept").ttl(ttl).acquire().await.unwrap();
    let mut contenders = Vec::new();
    for seed in 0..3 {
        let locks = connected(patient(etcd.url())).await;
        let row = row.clone();
        contenders.push(tokio::spawn(async move {
            row.contend(locks.clone(), ttl, seed).await;
            locks.shutdown().await;
        }));
    }
    let (foreign, server) = (row.clone(), etcd.clone());
    contenders.push(tokio::task::spawn_blocking(move || {
        foreign.contend_as_etcdctl(&server);
    }));
    let start = Instant::now();
    while start.elapsed() < length && !contenders.iter().any(|it| it.is_finished()) {
        tokio::time::sleep(millis(50)).await;
    }
    row.ends.store(true, Ordering::Relaxed);
    for contender in contenders {
        contender.await.unwrap();
    }
    let released = kept.release().await;
    keeper.shutdown().await;
    let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
    let (holds, revoked) = (count(&row.holds), stale.revoked());
    println!("{holds} holds while {revoked} leases were revoked that had been kept alive");
    assert_eq!(count(&row.overlaps), 0, "of {holds} holds: two holders");
    assert_eq!(count(&row.lost), 0, "of {holds} holds: lost");
    assert!(
        released.is_ok(),
        "a lock that no other client wants: {released:?}"
    );
    assert!(holds > 5 && revoked > 0);
}

/// The leases of other clients, each with a key, which are kept alive all the time.
struct Others {
    leases: Vec<Lease>,
    /// How many of them were gone although they had been kept alive.
    early: u32,
}

struct Lease {
    id: String,
    /// When it was kept alive last, by an answer.
    kept: Instant,
}

impl Others {
    fn of(port: u16) -> Self {
        Self {
            leases: (0..20).filter_map(|_| Lease::grant(port)).collect(),
            early: 0,
        }
    }

    fn keep_alive(&mut self, port: u16) {
        for lease in &mut self.leases {
            let sent = Instant::now();
            let body = format!(r#"{{"ID":"{}"}}"#, lease.id);
            // A member that does not know yet that its leader is frozen waits for that.
            let Ok(answer) = ask_within(millis(500), port, "lease/keepalive", &body) else {
                return;
            };
            if number(&answer, "TTL").is_some_and(|left| left > 0) {
                lease.kept = sent;
                continue;
            }
            self.early += u32::from(sent.duration_since(lease.kept) < TTL);
            if let Some(new) = Lease::grant(port) {
                *lease = new;
            }
        }
    }
}

impl Lease {
    fn grant(port: u16) -> Option<Self> {
        let kept = Instant::now();
        let body = format!(r#"{{"TTL":"{}"}}"#, TTL.as_secs());
        let answer = ask_within(millis(1000), port, "lease/grant", &body).ok()?;
        let id = number(&answer, "ID")?.to_string();
        Some(Self { id, kept })
    }
}

/// `LOCK_FREEZES` sets the number of freezes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_resumes_ends_no_hold() {
    let freezes = std::env::var("LOCK_FREEZES").map_or(2, |freezes| freezes.parse().unwrap());
    let mut etcd = Etcd::three_that_are_slow();
    let row = Arc::new(Row::default());
    let mut contenders = Vec::new();
    for seed in 0..4 {
        // One that is connected to the leader is to go on soon.
        let config = patient(etcd.url()).command_timeout(millis(1000));
        let locks = connected(config).await;
        let row = row.clone();
        contenders.push(tokio::spawn(async move {
            row.contend(locks.clone(), TTL, seed).await;
            locks.shutdown().await;
        }));
    }
    let mut others = Others::of(etcd.port(0));
    for _ in 0..freezes {
        let leader = etcd.leader();
        let port = etcd.port((leader + 1) % 3);
        others.keep_alive(port);
        etcd.pause(leader);
        let start = Instant::now();
        while start.elapsed() < TTL * 3 / 2 {
            others.keep_alive(port);
            tokio::time::sleep(millis(50)).await;
        }
        etcd.resume(leader);
        let start = Instant::now();
        while start.elapsed() < millis(1200) {
            others.keep_alive(port);
            tokio::time::sleep(millis(20)).await;
        }
        etcd.until_healthy();
    }
    row.ends.store(true, Ordering::Relaxed);
    for contender in contenders {
        contender.await.unwrap();
    }
    let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
    let (holds, lost, early) = (count(&row.holds), count(&row.lost), others.early);
    println!("{freezes} freezes, {holds} holds, {lost} lost; {early} leases of others ended early");
    assert_eq!(count(&row.overlaps), 0, "of {holds} holds: two holders");
    assert!(holds > freezes);
}
