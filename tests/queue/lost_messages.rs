//! Lost messages delay waiters and have no other effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use lock_runtime::{Config, LockManager};
use tokio::task::JoinSet;

use super::fixture::{LONG, fair, managers_with, waits};
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Timed, comes_true_within, eventually, millis, patient, soon};

/// Acquires the lock `rounds` times on each manager, concurrently.
async fn take_turns(managers: &[LockManager], rounds: usize) {
    let mut tasks = JoinSet::new();
    for locks in managers {
        let locks = locks.clone();
        tasks.spawn(async move {
            for _ in 0..rounds {
                let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
                tokio::time::sleep(millis(1)).await;
                guard.release().await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
}

/// Without messages, polling alone serves the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_however_many_messages_are_lost() {
    let server = Server::start();
    for percent in [20, 100] {
        let proxy = Proxy::losing_messages(server.port(), percent);
        let managers = managers_with(4, || patient(fair(&proxy.url()))).await;
        while proxy.lost_messages() < 4 {
            take_turns(&managers, 3).await;
        }
    }
}

/// The first waiter of a process subscribes, and that connection is never answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_waiter_is_served_despite_an_unanswered_subscription() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    let (other, locks) = (connected(server.url()), connected(patient(proxy.url())));
    let (other, locks) = (other.await, locks.await);
    let held = other.lock("door").acquire().await.unwrap();
    proxy.swallow_one_more_connection();
    let waiter = tokio::spawn(locks.lock("door").wait(LONG).acquire());
    eventually("a subscription", || proxy.swallowed() == 1);
    held.release().await.unwrap();
    let handed = soon(waiter).await.unwrap().unwrap();
    handed.release().await.unwrap();
}

/// The first waiter polls at least every half a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_grant_message_is_found_within_half_a_second() {
    let _timed = Timed::start();
    let server = Server::start();
    let holders = connected(server.url()).await;
    let proxy = Proxy::losing_messages(server.port(), 100);
    let locks = connected(proxy.url()).await;
    for _ in 0..4 {
        let holder = holders.lock("door").acquire().await.unwrap();
        let waiter = waits(&locks, "door");
        server.until_waiting("door", 1);
        let start = Instant::now();
        holder.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        let waited = start.elapsed();
        assert!(waited <= millis(500) + NOISE, "{waited:?}");
        guard.release().await.unwrap();
    }
    assert!(proxy.lost_messages() >= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_though_subscriptions_are_killed() {
    let server = Arc::new(Server::start());
    let managers = managers_with(4, || patient(fair(&server.url()))).await;
    let done = Arc::new(AtomicBool::new(false));
    let killed = Arc::new(AtomicUsize::new(0));
    let killer = std::thread::spawn({
        let (server, done, killed) = (server.clone(), done.clone(), killed.clone());
        move || {
            while !done.load(Relaxed) {
                let now = server.query::<usize>("CLIENT KILL TYPE pubsub");
                // On a slow machine, the processes need longer to subscribe again. Some connections do not
                // come back: those of managers that have just connected.
                comes_true_within(millis(500), || {
                    let clients = server.query::<String>("CLIENT LIST TYPE pubsub");
                    clients.lines().count() >= now || done.load(Relaxed)
                });
                killed.fetch_add(now, Relaxed);
                std::thread::sleep(millis(100));
            }
        }
    });
    while killed.load(Relaxed) <= 5 {
        take_turns(&managers, 20).await;
    }
    done.store(true, Relaxed);
    killer.join().unwrap();
}

/// Waiters poll as soon as the subscription is back, so a missed message causes no further delay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_polls_at_once_after_resubscribing() {
    let server = Server::start();
    let managers = managers_with(3, || Config::new(server.url())).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let first = waits(&managers[1], "door");
    server.until_waiting("door", 1);
    let second = waits(&managers[2], "door");
    server.until_waiting("door", 2);
    server.query::<usize>("CLIENT KILL TYPE pubsub");
    holder.release().await.unwrap();
    let first = async { first.await.unwrap().unwrap().release().await.unwrap() };
    let second = async { second.await.unwrap().unwrap().release().await.unwrap() };
    soon(async { tokio::join!(first, second) }).await;
}

/// The waiter polls and acquires the lock past a dead waiter, so both a reply and a message report it. The
/// guard is valid, whichever arrives first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_grant_message_keeps_lock_held() {
    let server = Server::start();
    let locks = connected(fair(&server.url())).await;
    for _ in 0..40 {
        server.query::<()>("SET lock:door other-client");
        let waiter = waits(&locks, "door");
        server.until_waiting("door", 1);
        server.query::<()>("ZADD lock:::queue:door 0 ghost");
        server.query::<()>("DEL lock:door");
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.release().await.expect("the guard held the lock");
        server.until_gone("lock:door");
    }
    locks.shutdown().await;
}
