//! Locks are granted in arrival order, across managers and processes.

use std::sync::{Arc, Mutex};

use tokio::task::{JoinSet, block_in_place};

use super::fixture::{LONG, fair, managers_with, waits};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

const MANY: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_follow_arrival_order() {
    let server = Server::start();
    let managers = managers_with(MANY, || patient(fair(&server.url()))).await;
    let holder = managers[5].lock("door").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    // An order that differs from the order of connecting.
    let arrivals: Vec<_> = (0..MANY).map(|n| n * 7 % MANY).collect();
    for (before, n) in arrivals.iter().enumerate() {
        let (lock, order, n) = (managers[*n].lock("door").wait(LONG), order.clone(), *n);
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            order.lock().unwrap().push(n);
            guard.release().await.unwrap();
        });
        server.until_waiting("door", before + 1);
    }
    holder.release().await.unwrap();
    soon(waiters.join_all()).await;
    assert_eq!(*order.lock().unwrap(), arrivals);
}

/// A waiter that returns queues behind all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returning_waiter_queues_last() {
    const ROUNDS: usize = 30;
    let server = Arc::new(Server::start());
    let managers = managers_with(4, || patient(fair(&server.url()))).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for (n, locks) in managers.iter().enumerate() {
        let (locks, order, queue) = (locks.clone(), order.clone(), server.clone());
        waiters.spawn(async move {
            let mut next = waits(&locks, "door");
            for _ in 0..ROUNDS {
                let guard = next.await.unwrap().unwrap();
                order.lock().unwrap().push(n);
                // It queues again before it releases.
                let again = waits(&locks, "door");
                block_in_place(|| queue.until_waiting("door", 4));
                guard.release().await.unwrap();
                next = again;
            }
            drop(next.await.unwrap().unwrap());
        });
        server.until_waiting("door", n + 1);
    }
    holder.release().await.unwrap();
    soon(waiters.join_all()).await;
    let order = order.lock().unwrap();
    for turns in order.chunks(4) {
        let mut turns = turns.to_vec();
        turns.sort_unstable();
        assert_eq!(
            turns,
            [0, 1, 2, 3],
            "each waiter has one turn a round: {order:?}"
        );
    }
}

/// The lease is hardly longer than a round trip: it may end before the waiter learns of it, and is granted
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shortest_ttl_serves_all_waiters() {
    let server = Server::start();
    let managers = managers_with(4, || fair(&server.url()).ttl(millis(10))).await;
    let mut waiters = JoinSet::new();
    for locks in managers {
        waiters.spawn(async move {
            for _ in 0..4 {
                let guard = waits(&locks, "door").await.unwrap().unwrap();
                drop(guard.release().await);
            }
            locks.shutdown().await;
        });
    }
    soon(waiters.join_all()).await;
}

/// In the other process: queues when ordered to, and reports its fencing token.
fn wait_in_queue(url: &str) {
    block_on(async {
        let locks = connected(patient(fair(url))).await;
        report_event("ready");
        next_order();
        let guard = locks.lock("door").wait(LONG).acquire().await.unwrap();
        report_event(format!("had {}", guard.fencing_token().await.unwrap()));
        guard.release().await.unwrap();
        locks.shutdown().await;
    });
}

#[test]
fn grants_follow_arrival_order_across_processes() {
    if let Some(arguments) = arguments() {
        return wait_in_queue(&arguments[0]);
    }
    let server = Server::start();
    let start = |_| {
        Worker::start(
            grants_follow_arrival_order_across_processes,
            &[&server.url()],
        )
    };
    let mut workers: Vec<_> = (0..6).map(start).collect();
    let numbers = block_on(async {
        let locks = connected(patient(server.url())).await;
        let holder = locks.lock("door").acquire().await.unwrap();
        for (before, worker) in workers.iter_mut().enumerate() {
            worker.expect("ready");
            worker.order("wait");
            server.until_waiting("door", before + 1);
        }
        holder.release().await.unwrap();
        let number = |worker: &Worker| worker.expect("had").parse::<u64>().unwrap();
        workers.iter().map(number).collect::<Vec<_>>()
    });
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    workers.iter_mut().for_each(|worker| worker.succeeds());
}
