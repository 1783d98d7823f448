//! A lease that can no longer be proven ends the body at its next await point, no later than the deadline,
//! and its caller gets `Lost`; then another process gets the lock. A fault that ends before the deadline
//! costs no lock.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::sync::oneshot;

use super::faults::{Fault, Outcome};
use super::fixture::{Alone, Fixture};
use lock_test_support::manager::until_renewed;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, millis, soon, within};

const TTL: Duration = millis(2000);

/// Records that it was dropped.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[distributed_lock(key = "<key>", ttl = TTL, manager = locks)]
async fn hold(
    locks: &LockManager,
    key: &str,
    ended: &AtomicBool,
    inside: oneshot::Sender<()>,
) -> Result<(), LockError> {
    let _ended = Ended(ended);
    let _ = inside.send(());
    pending().await
}

/// Asserts that a body that never ends is canceled at most a TTL after `fault`, and that its caller then gets
/// `Lost`.
async fn is_canceled(locks: &LockManager, key: &str, fault: impl Future<Output = ()>) {
    let ended = AtomicBool::new(false);
    let (inside, entered) = oneshot::channel();
    let call = async {
        let result = hold(locks, key, &ended, inside).await;
        (result, ended.load(Relaxed), Instant::now())
    };
    let fault = async {
        soon(entered).await.unwrap();
        // A renewal is sent after a third of the TTL, plus or minus a tenth.
        tokio::time::sleep(TTL / 2).await;
        let begun = Instant::now();
        fault.await;
        begun
    };
    let ((result, ended, at), begun) = tokio::join!(call, fault);
    let error = result.unwrap_err();
    assert!(
        error.is_lost() && !error.is_busy() && !error.is_unavailable(),
        "{error}"
    );
    assert_eq!(error.key(), Some(key));
    assert!(
        ended,
        "the caller got the error before the body was dropped"
    );
    let took = at - begun;
    assert!(took <= TTL + NOISE, "{took:?} after the fault");
}

/// Asserts that a holder behind a network with this fault is replaced in time, and never gets the lock back.
async fn is_replaced(fixture: &Fixture, fault: fn(&Proxy), limit: Duration) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (row, body) = (fixture.key("row"), fixture.key("body"));
    let guard = locks.lock(&*row).ttl(TTL).acquire().await.unwrap();
    let first = guard.fencing_token().await.unwrap();
    let waiter = fixture.other().lock(&*row).acquire();
    let waiter = tokio::spawn(async { (waiter.await, Instant::now()) });
    let mut leased_until = None;
    is_canceled(&locks, &body, async {
        leased_until = Some(Instant::now() + guard.remaining());
        network.each(fault);
    })
    .await;
    let next = within(limit + NOISE, waiter).await;
    let (next, at) = next.unwrap();
    let next = next.unwrap();
    assert!(!guard.is_valid(), "there are two holders");
    assert!(at >= leased_until.unwrap(), "the lock was held");
    // What was held back arrives now.
    network.each(Proxy::heal);
    assert!(guard.release().await.unwrap_err().is_lost());
    tokio::time::sleep(NOISE).await;
    assert!(next.is_valid());
    // The server says so.
    assert!(next.fencing_token().await.unwrap() > first);
    next.release().await.unwrap();
    fixture.until_free(&body).await;
    soon(locks.shutdown()).await;
}

pub async fn holder_behind_a_cut_network_is_replaced(fixture: Fixture) {
    is_replaced(&fixture, Proxy::cut, TTL + fixture.outlasts()).await;
}

pub async fn holder_behind_a_silent_network_is_replaced(fixture: Fixture) {
    is_replaced(&fixture, Proxy::black_hole, TTL + fixture.outlasts()).await;
}

/// Its renewals arrive and extend the lease until it counts the lock as lost, and a session lasts while it
/// connects again.
pub async fn holder_without_replies_is_replaced(fixture: Fixture) {
    let limit = (TTL + fixture.outlasts()) * 2;
    is_replaced(&fixture, Proxy::hold_replies, limit).await;
}

/// Its renewals arrive when another process has the lock.
pub async fn holder_whose_requests_are_late_is_replaced(fixture: Fixture) {
    is_replaced(&fixture, Proxy::hold_requests, TTL + fixture.outlasts()).await;
}

/// Asserts that a holder still has the lock a ttl after this has happened to it.
async fn is_survived(locks: &LockManager, key: &str, ttl: Duration, happens: impl Future) {
    let run = locks.lock(key).ttl(ttl).run(async |lock| {
        happens.await;
        tokio::time::sleep(ttl).await;
        lock.ensure_valid_for(ttl / 4)
    });
    run.await.flatten().unwrap();
}

/// From right before a renewal on, for a third of the lease.
async fn briefly(ttl: Duration, fault: impl Future, repair: impl Future) {
    tokio::time::sleep(ttl / 4).await;
    fault.await;
    tokio::time::sleep(ttl / 3).await;
    repair.await;
}

pub async fn brief_cut_of_the_network_costs_no_lock(fixture: Fixture) {
    is_outlived(fixture, Proxy::cut).await;
}

pub async fn brief_silence_of_the_network_costs_no_lock(fixture: Fixture) {
    is_outlived(fixture, Proxy::black_hole).await;
}

async fn is_outlived(fixture: Fixture, fault: fn(&Proxy)) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (row, ttl) = (fixture.key("row"), millis(5000));
    let (fault, repair) = (async { network.each(fault) }, async {
        network.each(Proxy::heal);
    });
    is_survived(&locks, &row, ttl, briefly(ttl, fault, repair)).await;
    soon(locks.shutdown()).await;
}

pub async fn connection_that_is_never_answered_costs_no_lock(fixture: Fixture) {
    outlives_connection(fixture, millis(3000)).await;
}

pub async fn connection_that_is_never_answered_costs_no_short_lease(fixture: Fixture) {
    outlives_connection(fixture, millis(1500)).await;
}

/// Asserts that no lease ends when its connection is replaced by one that is accepted and never answered.
async fn outlives_connection(fixture: Fixture, ttl: Duration) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    let happens = async {
        tokio::time::sleep(ttl / 2).await;
        network.each(Proxy::swallow_next_connection);
    };
    is_survived(&locks, &row, ttl, happens).await;
    network.each(Proxy::swallow_next_connection);
    let lock = locks.lock(&*row);
    lock.acquire().await.unwrap().release().await.unwrap();
    soon(locks.shutdown()).await;
}

/// Servers that return with all that they granted cost no lock, and those that forget it, or stay away, cost
/// it in time.
pub async fn servers_that_fail_cost_what_they_forget(fixture: Fixture) {
    let Some(alone) = fixture.alone().await else {
        return;
    };
    let (row, mut last) = (fixture.key("row"), 0);
    let ttl = millis(5000);
    let (fault, repair) = (alone.suffer(Fault::Freeze), alone.recover(Fault::Freeze));
    is_survived(&alone.locks, &row, ttl, briefly(ttl, fault, repair)).await;
    for (fault, outcome) in fixture.topology().faults {
        match outcome {
            Outcome::Lost => {
                is_canceled(&alone.locks, &row, alone.suffer(*fault)).await;
                alone.recover(*fault).await;
            }
            Outcome::Kept => is_kept(&alone, &row, *fault).await,
        }
        let next = alone.other.lock(&*row).acquire();
        let next = next.await.unwrap();
        let token = next.fencing_token().await.unwrap();
        assert!(token > last, "{token} after {last}, {fault:?}");
        last = token;
        next.release().await.unwrap();
    }
    alone.close().await;
}

/// Asserts that the holder keeps the lock, which no other caller gets.
async fn is_kept(alone: &Alone, key: &str, fault: Fault) {
    let guard = alone.locks.lock(key).acquire().await.unwrap();
    alone.suffer(fault).await;
    alone.recover(fault).await;
    let steals = async {
        loop {
            // A server that has just started may be unavailable.
            if let Ok(stolen) = alone.other.lock(key).try_acquire().await {
                assert!(stolen.is_none(), "two callers hold the lock");
            }
            tokio::time::sleep(millis(50)).await;
        }
    };
    tokio::select! {
        () = until_renewed([&guard]) => {}
        () = steals => unreachable!(),
    }
    guard.release().await.unwrap();
}
