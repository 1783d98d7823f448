//! A leader that was frozen has leases revoked that others have kept alive meanwhile: no holder may rely on those.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lock_runtime::{LockGuard, LockManager};

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::rng::Rng;
use lock_test_support::stale_leader::StaleLeader;
use lock_test_support::time::{millis, patient};

use super::foreign_clients::Foreign;

const TTL: Duration = millis(2000);

/// The length of the test; `LOCK_REVOCATIONS` sets it in seconds.
const LENGTH: Duration = millis(12_000);

/// Who holds the lock, by the word of its holders.
#[derive(Default)]
struct Row {
    holders: AtomicU32,
    /// The number of holds, and of those that found another holder, or were lost.
    holds: AtomicU32,
    overlaps: AtomicU32,
    lost: AtomicU32,
    ends: AtomicBool,
}

impl Row {
    fn enter(&self) {
        self.holds.fetch_add(1, Ordering::Relaxed);
        let others = self.holders.fetch_add(1, Ordering::SeqCst);
        self.overlaps.fetch_add(others, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.holders.fetch_sub(1, Ordering::SeqCst);
    }

    /// Holds the lock for that long.
    async fn hold(&self, guard: LockGuard, time: Duration) {
        self.enter();
        let kept = tokio::time::timeout(time, guard.lost()).await.is_err();
        self.leave();
        self.lost.fetch_add(u32::from(!kept), Ordering::Relaxed);
        let released = guard.release().await;
        assert!(!kept || released.is_ok(), "{released:?}");
    }

    /// Holds the lock again and again, for up to twice its ttl.
    async fn contend(&self, locks: LockManager, seed: u64) {
        let mut rng = Rng::with(seed);
        while !self.ends.load(Ordering::Relaxed) {
            let lock = locks.lock("row").ttl(TTL).wait(millis(60_000));
            let guard = lock.acquire().await.unwrap();
            let time = match rng.one_in(3) {
                true => rng.below(4000),
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
            self.enter();
            self.leave();
            foreign.release();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_were_kept_alive_are_revoked_under_holders_and_waiters() {
    let seconds = std::env::var("LOCK_REVOCATIONS").map(|seconds| seconds.parse().unwrap());
    let length = seconds.map_or(LENGTH, Duration::from_secs);
    let etcd = Arc::new(Etcd::start());
    let row = Arc::new(Row::default());
    let stale = StaleLeader::start(etcd.port(0));
    let keeper = connected(patient(etcd.url())).await;
    let kept = keeper.lock("kept").ttl(TTL).acquire().await.unwrap();
    let mut contenders = Vec::new();
    for seed in 0..3 {
        let locks = connected(patient(etcd.url())).await;
        let row = row.clone();
        contenders.push(tokio::spawn(async move {
            row.contend(locks.clone(), seed).await;
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
