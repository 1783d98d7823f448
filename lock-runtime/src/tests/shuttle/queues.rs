//! Remote waits: one claim waits in the server queue for a whole local queue.

use crate::api::lock::Lock;
use crate::error::LockError;
use crate::tests::shuttle::explore::{explore, join_all, with_turn_limit};
use crate::tests::shuttle::server::Server;
use shuttle::future::spawn;
use std::time::Duration;

/// The total time for which scenarios with remote waits may wait.
const MOMENT: Duration = Duration::from_millis(0);

#[test]
fn all_callers_of_two_processes_acquire_the_lock_in_turn() {
    explore(MOMENT, || async {
        let server = Server::start();
        let (one, other) = (server.process(), server.process());
        join_all([&one, &other, &one, &other].map(|process| process.spawn_holder("a"))).await;
        server.end([one, other]).await;
        server.assert_all_released();
        server.was_asked_for_no_more();
    });
}

#[test]
fn a_waiter_joins_a_queue_that_the_last_one_leaves() {
    explore(MOMENT, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let holder = other.take("a").await.unwrap();
        join_all([process.spawn_quitter("a", 4)]).await;
        let joins = process.spawn_holder("a");
        let ends = spawn(async move { holder.end() });
        join_all([process.spawn_quitter("a", 2), joins, ends]).await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

#[test]
fn the_only_waiter_leaves_as_the_lock_is_granted() {
    explore(MOMENT, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let holder = other.take("a").await.unwrap();
        let ends = spawn(async move { holder.end() });
        join_all([process.spawn_quitter("a", 8), ends]).await;
        join_all([other.spawn_holder("a")]).await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

#[test]
fn the_only_readers_leave_as_the_lock_is_granted() {
    explore(MOMENT, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let holder = other.take("a").await.unwrap();
        let ends = spawn(async move { holder.end() });
        let readers = [(); 2].map(|()| process.spawn_quitter_with("a", 8, Lock::read));
        join_all(readers.into_iter().chain([ends])).await;
        join_all([other.spawn_holder("a")]).await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_waiter_at_a_shutdown_fails_or_acquires_the_lock() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let holder = other.take("a").await.unwrap();
        let waiters = [(); 2].map(|()| {
            let process = process.clone();
            spawn(async move {
                match process.take("a").await {
                    Ok(held) => held.end(),
                    Err(error) => assert!(matches!(error, LockError::ShuttingDown { .. })),
                }
            })
        });
        let ends = spawn(async move { holder.end() });
        process.locks.shutdown().await;
        join_all(waiters.into_iter().chain([ends])).await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_single_try_while_others_wait_gets_a_reply() {
    explore(MOMENT, || async {
        let server = Server::start();
        let process = server.process();
        let tries = {
            let process = process.clone();
            spawn(async move {
                let lock = process.locks.lock("a");
                if let Some(tried) = with_turn_limit(2, lock.try_acquire()).await
                    && let Some(guard) = tried.unwrap()
                {
                    process.holding(guard).end();
                }
            })
        };
        join_all([process.spawn_holder("a"), tries, process.spawn_holder("a")]).await;
        server.end([process]).await;
        server.assert_all_released();
    });
}
