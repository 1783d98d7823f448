//! Local handoff.

use crate::lock::watchdog::renewable::Renewable;
use crate::tests::shuttle::explore::{explore, join_all, pause};
use crate::tests::shuttle::grant_log::TTL;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use shuttle::future::spawn;
use std::time::Duration;

/// A waiter that the server considers dead receives no event when the lock is free, but polls.
const ASKS_AGAIN: Duration = Duration::from_millis(100);

/// A local queue lingers if the server queue contained two claims for a moment, of which one had left.
const LINGER: Duration = Duration::from_millis(20);

#[test]
fn the_front_waiter_leaves_during_delivery() {
    explore(LINGER, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take("a").await.unwrap();
        let ends = spawn(async move { holder.end() });
        join_all([
            process.spawn_quitter("a", 2),
            process.spawn_holder("a"),
            ends,
        ])
        .await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn two_guards_are_dropped_at_once_while_three_callers_wait() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let one = process.take("a").await.unwrap();
        let other = process.take("b").await.unwrap();
        let waiters = ["a", "b", "a"].map(|key| process.spawn_holder(key));
        let ends = [one, other].map(|held| spawn(async move { held.end() }));
        join_all(waiters.into_iter().chain(ends)).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// The last waiter leaves the queue while the lock is held: no task of the queue keeps running.
#[test]
fn an_empty_local_queue_has_no_task() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take("a").await.unwrap();
        join_all([process.spawn_quitter("a", 3)]).await;
        process.wait_idle().await;
        let next = {
            let process = process.clone();
            spawn(async move { process.take("a").await.unwrap() })
        };
        let ends = spawn(async move { holder.end() });
        let held = next.await.unwrap();
        join_all([ends]).await;
        process.wait_idle().await;
        held.end();
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// A lost hold is not handed off.
#[test]
fn a_handoff_races_with_a_loss() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take("a").await.unwrap();
        let hold = holder.guard().hold().clone();
        let waiter = process.spawn_holder("a");
        let loses = spawn(async move {
            hold.clone().on_renewed(
                virtual_time::clock().now(),
                virtual_time::clock().now(),
                false,
            );
            assert!(hold.remaining().is_zero());
            pause().await;
            assert!(hold.remaining().is_zero());
        });
        let ends = spawn(async move { holder.end() });
        join_all([waiter, loses, ends]).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// A release, the end of the lease and a renewal's reply, all at once, while a caller waits.
#[test]
fn a_handoff_races_with_the_end_of_the_lease_and_a_renewal() {
    explore(ASKS_AGAIN, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take("a").await.unwrap();
        let waiter = process.spawn_holder("a");
        // The watchdog sends a renewal meanwhile.
        let passes = spawn(async {
            for part in [TTL / 2, TTL / 3, TTL / 4] {
                virtual_time::advance(part);
                pause().await;
            }
        });
        let ends = spawn(async move {
            holder.work().await;
            let guard = holder.unwatched();
            // A lost lease is reported.
            let left = guard.remaining();
            assert!(guard.release().await.is_err() || !left.is_zero());
        });
        join_all([waiter, passes, ends]).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_empty();
    });
}
