//! In etcd and ZooKeeper a claim ends with a lease of the server or a session, or when its process deletes
//! it. However it ends, the line is served first, and a dead waiter is in the way for no longer than the
//! manual says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_runtime::LockManager;
use tokio::task::JoinSet;

use super::crash::{TTL, start, use_others};
use super::fixture::Fixture;
use lock_test_support::pollers::Pollers;
use lock_test_support::time::{NOISE, millis, soon, within};

/// The reader would fit beside the holder.
pub async fn reader_behind_a_dead_writer_enters_in_time(fixture: Fixture) {
    if !fixture.has_processes() {
        return;
    }
    for is_killed in [true, false] {
        let row = fixture.key(if is_killed { "killed" } else { "stopped" });
        let holder = fixture.locks().lock(&*row).read().acquire().await.unwrap();
        let mut writer = start(&fixture, &row, "waits").await;
        let reader = tokio::spawn(fixture.other().lock(&*row).read().acquire());
        use_others(fixture.other(), &row).await;
        match is_killed {
            true => writer.kill(),
            false => fixture.stop(&writer),
        }
        let costs = fixture.crash_costs(TTL) + fixture.topology().keeps_out;
        let reader = within(costs + NOISE, reader).await;
        let reader = reader.unwrap().unwrap();
        reader.release().await.unwrap();
        holder.release().await.unwrap();
        if !is_killed {
            writer.kill();
        }
    }
}

/// Waits for the lock, of which the lease ends, while callers of two processes try all the time.
async fn waits_beside_pollers(
    fixture: &Fixture,
    row: &str,
    waiter: &LockManager,
    end: impl FnOnce(),
) {
    let waits = tokio::spawn(waiter.lock(row).acquire());
    use_others(waiter, row).await;
    let pollers = Pollers::start(fixture.both(), |locks| locks.lock(row));
    end();
    let guard = soon(waits).await.unwrap().unwrap();
    assert_eq!(pollers.holds(), 0, "newcomers came first");
    guard.release().await.unwrap();
    soon(pollers.end()).await;
    fixture.until_free(row).await;
}

pub async fn end_of_a_lease_serves_the_queue_before_newcomers(fixture: Fixture) {
    if !fixture.has_queue() {
        return;
    }
    let (holder, waiter) = tokio::join!(fixture.another(), fixture.another());
    let most = if fixture.has_permits() { 2 } else { 1 };
    let mut rounds = JoinSet::new();
    for round in 0..6 {
        let (fixture, holder, waiter) = (fixture.clone(), holder.clone(), waiter.clone());
        rounds.spawn(async move {
            let (permits, row) = (round % most + 1, fixture.key(&round.to_string()));
            let lock = || holder.lock(&*row).permits(permits).renew(false);
            let mut guards = Vec::new();
            for _ in 0..permits {
                let lock = lock().ttl(fixture.short_lease());
                guards.push(lock.acquire().await.unwrap());
            }
            waits_beside_pollers(&fixture, &row, &waiter, || ()).await;
        });
    }
    rounds.join_all().await;
    holder.shutdown().await;
    waiter.shutdown().await;
}

pub async fn end_of_a_killed_holders_lease_serves_the_queue_before_newcomers(fixture: Fixture) {
    if !fixture.has_queue() || !fixture.has_processes() {
        return;
    }
    let waiter = fixture.another().await;
    let mut rounds = JoinSet::new();
    for round in 0..3 {
        let (fixture, waiter) = (fixture.clone(), waiter.clone());
        rounds.spawn(async move {
            let row = fixture.key(&round.to_string());
            let mut holder = start(&fixture, &row, "holds").await;
            waits_beside_pollers(&fixture, &row, &waiter, || holder.kill()).await;
        });
    }
    rounds.join_all().await;
    waiter.shutdown().await;
}

/// Two processes poll for the lock all the time, and keep it for 50 ms.
pub async fn end_of_min_hold_serves_waiters_first(fixture: Fixture) {
    if fixture.outlasts().is_zero() {
        return;
    }
    const MIN_HOLD: Duration = millis(50);
    let job = fixture.key("job");
    let held = AtomicUsize::new(0);
    let poll = async |locks: &LockManager| {
        loop {
            let lock = locks.lock(&*job).min_hold(MIN_HOLD);
            if let Some(guard) = lock.try_acquire().await.unwrap() {
                held.fetch_add(1, Ordering::Relaxed);
                guard.release().await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let third = fixture.another().await;
    let wait = async {
        for _ in 0..20 {
            let before = held.load(Ordering::Relaxed);
            let guard = third.lock(&*job).acquire().await.unwrap();
            let passed = held.load(Ordering::Relaxed) - before;
            // One may have entered the line before it, and another have been answered late.
            assert!(passed <= 3, "{passed} holds of pollers came first");
            guard.release().await.unwrap();
            let next = held.load(Ordering::Relaxed);
            while held.load(Ordering::Relaxed) == next {
                tokio::task::yield_now().await;
            }
        }
    };
    let (one, other) = (fixture.locks().clone(), fixture.other().clone());
    tokio::select! {
        () = soon(wait) => {}
        () = poll(&one) => unreachable!(),
        () = poll(&other) => unreachable!(),
    };
    fixture.until_free(&job).await;
    third.shutdown().await;
}
