//! The server goes away while many wait.

use std::time::{Duration, Instant};

use lock_runtime::LockManager;
use tokio::task::JoinSet;

use super::crew::{LONG, fair, managers, managers_with, waits};
use crate::support::manager::connected;
use crate::support::proxy::Proxy;
use crate::support::server::Server;
use crate::support::time::{NOISE, millis, within};

/// Each has the lock once, one after the other, from now on.
async fn all_are_served(waiting: Vec<super::crew::Waiter>, limit: Duration) {
    let mut turns = JoinSet::new();
    for waiter in waiting {
        turns.spawn(async move { waiter.await.unwrap().unwrap().release().await.unwrap() });
    }
    within(limit, turns.join_all()).await;
}

async fn line(server: &Server, managers: &[LockManager]) -> Vec<super::crew::Waiter> {
    let mut waiting = Vec::new();
    for (before, locks) in managers.iter().enumerate() {
        waiting.extend((0..3).map(|_| waits(locks, "door")));
        server.until_waiting("door", before + 1);
    }
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_are_served_by_a_server_that_came_back_empty() {
    let mut server = Server::start();
    let managers = managers(&server.url(), 4).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let waiting = line(&server, &managers[1..]).await;
    server.restart();
    all_are_served(waiting, millis(1500)).await;
    drop(holder);
    managers[0].shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_wait_are_served_when_the_server_is_back() {
    let mut server = Server::start();
    let managers = managers(&server.url(), 4).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let waiting = line(&server, &managers[1..]).await;
    server.kill();
    tokio::time::sleep(millis(1500)).await;
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    server.restart();
    all_are_served(waiting, millis(1500)).await;
    drop(holder);
    managers[0].shutdown().await;
}

/// Those who waited for nobody but the server are told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_server_that_stays_away_is_told() {
    let mut server = Server::start();
    let managers = managers(&server.url(), 2).await;
    let mut guards = Vec::new();
    let mut waiting = JoinSet::new();
    let start = Instant::now();
    let wait = millis(1500);
    for n in 0..60 {
        let key = format!("row:{n}");
        guards.push(managers[0].lock(&*key).acquire().await.unwrap());
        let lock = managers[1].lock(key).wait(wait);
        waiting.spawn(lock.acquire());
    }
    server.until_waiting("row:59", 1);
    server.kill();
    let ends = within(wait + NOISE, waiting.join_all()).await;
    assert!(start.elapsed() >= wait, "{:?}", start.elapsed());
    let honest = ends
        .iter()
        .filter(|end| end.as_ref().unwrap_err().is_unavailable());
    assert_eq!(
        honest.count(),
        60,
        "the others were told that somebody else has it"
    );
    server.restart();
    drop(guards);
}

/// The lock came free while they couldn't be reached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_cut_off_is_served_when_the_network_is_back() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let managers = managers_with(3, || fair(&proxy.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waiting = line(&server, &managers).await;
    proxy.cut();
    tokio::time::sleep(millis(300)).await;
    holder.release().await.unwrap();
    tokio::time::sleep(millis(300)).await;
    proxy.heal();
    all_are_served(waiting, millis(1500)).await;
}

/// Nobody is told that the network carries nothing: a grant goes into the void.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_in_a_black_hole_is_served_when_it_is_gone() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let managers = managers_with(3, || fair(&proxy.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waiting = line(&server, &managers).await;
    proxy.black_hole();
    holder.release().await.unwrap();
    tokio::time::sleep(millis(1200)).await;
    proxy.heal();
    all_are_served(waiting, millis(3500)).await;
}

/// One process is in a black hole; the others wait for no more than a grant's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_in_a_black_hole_costs_the_others_the_lease_of_a_grant() {
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
    let guard = within(millis(2000 + 700), next).await.unwrap().unwrap();
    proxy.heal();
    guard.release().await.unwrap();
    let guard = within(millis(3000), waits_in_vain).await.unwrap().unwrap();
    guard.release().await.unwrap();
    within(LONG, lost.shutdown()).await;
}

/// It has given up before the network was back: then what it had asked for, and what it was granted
/// meanwhile, is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_left_while_it_was_cut_off_gets_nothing() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let holders = connected(fair(&server.url())).await;
    let locks = connected(fair(&proxy.url())).await;
    let holder = holders.lock("door").acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock("door").wait(millis(900)).acquire());
    server.until_waiting("door", 1);
    proxy.black_hole();
    within(millis(900) + NOISE, waiter)
        .await
        .unwrap()
        .unwrap_err();
    holder.release().await.unwrap();
    proxy.heal();
    server.until_waiting("door", 0);
    server.until_gone("lock:door", millis(1000));
    within(NOISE, locks.shutdown()).await;
    let guard = holders.lock("door").try_acquire().await.unwrap();
    guard
        .expect("nobody has come back")
        .release()
        .await
        .unwrap();
}
