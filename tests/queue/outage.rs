//! Outages of the server or the network while many callers wait.

use lock_runtime::LockManager;
use tokio::task::JoinSet;

use super::fixture::{fair, managers, managers_with, waits};
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{millis, soon};

/// Asserts that all waiters acquire the lock, one after the other.
async fn all_are_served(waiting: Vec<super::fixture::Waiter>) {
    let mut turns = JoinSet::new();
    for waiter in waiting {
        turns.spawn(async move { waiter.await.unwrap().unwrap().release().await.unwrap() });
    }
    soon(turns.join_all()).await;
}

async fn line(server: &Server, managers: &[LockManager]) -> Vec<super::fixture::Waiter> {
    let mut waiting = Vec::new();
    for (before, locks) in managers.iter().enumerate() {
        waiting.extend((0..3).map(|_| waits(locks, "door")));
        server.until_waiting("door", before + 1);
    }
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_after_outages_without_data() {
    let mut server = Server::start();
    let managers = managers(&server.url(), 4).await;
    for outage in [0, 700] {
        let holder = managers[0].lock("door").acquire().await.unwrap();
        let waiting = line(&server, &managers[1..]).await;
        server.kill();
        tokio::time::sleep(millis(outage)).await;
        assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
        server.restart();
        all_are_served(waiting).await;
        drop(holder);
    }
    managers[0].shutdown().await;
}

/// Waiters that only the outage kept from the lock fail as unavailable, not as busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_fail_as_unavailable_during_long_outage() {
    let mut server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let keys: Vec<_> = (0..60).map(|n| format!("row:{n}")).collect();
    let mut guards = Vec::new();
    for key in &keys {
        guards.push(managers[0].lock(key).acquire().await.unwrap());
    }
    let mut waiting = JoinSet::new();
    for key in &keys {
        waiting.spawn(managers[1].lock(key).wait(millis(4000)).acquire());
    }
    keys.iter().for_each(|key| server.until_waiting(key, 1));
    server.kill();
    let ends = soon(waiting.join_all()).await;
    let honest = ends
        .iter()
        .filter(|end| end.as_ref().unwrap_err().is_unavailable());
    assert_eq!(honest.count(), 60, "the other waiters failed as busy");
    server.restart();
    drop(guards);
}

/// The lock becomes free while the waiters are unreachable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnected_waiters_are_served_after_reconnecting() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let managers = managers_with(3, || fair(&proxy.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waiting = line(&server, &managers).await;
    proxy.cut();
    holder.release().await.unwrap();
    tokio::time::sleep(millis(300)).await;
    proxy.heal();
    all_are_served(waiting).await;
}

/// No connection reports an error while the network drops all data, so the grant is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn black_holed_waiters_are_served_after_recovery() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let managers = managers_with(3, || fair(&proxy.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waiting = line(&server, &managers).await;
    proxy.black_hole();
    holder.release().await.unwrap();
    tokio::time::sleep(millis(700)).await;
    proxy.heal();
    all_are_served(waiting).await;
}

/// One process is black-holed; the others wait for its grant to end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_served_past_black_holed_waiter() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let lost = connected(fair(&proxy.url())).await;
    let locks = connected(fair(&server.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waits_in_vain = waits(&lost, "door");
    server.until_waiting("door", 1);
    let next = waits(&locks, "door");
    server.until_waiting("door", 2);
    proxy.black_hole();
    holder.release().await.unwrap();
    let guard = soon(next).await.unwrap().unwrap();
    proxy.heal();
    guard.release().await.unwrap();
    let guard = soon(waits_in_vain).await.unwrap().unwrap();
    guard.release().await.unwrap();
    soon(lost.shutdown()).await;
}

/// The waiter gives up before the network recovers; its queue entry and any lock granted meanwhile are
/// released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_that_gave_up_during_outage_releases_grant() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let locks = connected(fair(&proxy.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waiter = waits(&locks, "door");
    server.until_waiting("door", 1);
    proxy.black_hole();
    waiter.abort();
    holder.release().await.unwrap();
    proxy.heal();
    server.until_waiting("door", 0);
    server.until_gone("lock:door");
    soon(locks.shutdown()).await;
    let guard = holders.lock("door").try_acquire().await.unwrap();
    guard.expect("the lock is free").release().await.unwrap();
}
