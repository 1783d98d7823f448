//! Locks that several callers share: joined read holds, several kinds in one process, and downgrades.

use crate::api::lock::Lock;
use crate::lock::watchdog::renewable::Renewable;
use crate::tests::shuttle::explore::{explore, join_all, pause, with_turn_limit};
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use shuttle::future::spawn;
use std::time::Duration;

/// A waiter polls again after a lost or late event; a local queue lingers for less.
const POLLS: Duration = Duration::from_millis(100);

fn read(lock: Lock) -> Lock {
    lock.read()
}

fn read_behind_one(lock: Lock) -> Lock {
    lock.read().max_waiters(1)
}

fn write(lock: Lock) -> Lock {
    lock
}

fn two_permits(lock: Lock) -> Lock {
    lock.permits(2)
}

#[test]
fn readers_join_while_the_last_guard_leaves() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take_with("a", read).await;
        let ends = spawn(async move { holder.end() });
        let readers = [(); 2].map(|()| process.spawn_holder_with("a", read));
        join_all(readers.into_iter().chain([ends])).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn readers_of_a_free_lock_are_not_too_many_waiters() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        join_all([(); 4].map(|()| process.spawn_holder_with("a", read_behind_one))).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_reader_whose_try_serves_others_gives_up() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let quits = process.spawn_quitter_with("a", 2, read);
        let readers = [(); 2].map(|()| process.spawn_holder_with("a", read));
        join_all(readers.into_iter().chain([quits])).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_reader_joins_while_the_hold_is_lost() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take_with("a", read).await;
        let hold = holder.guard().hold().clone();
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
        let reader = process.spawn_holder_with("a", read);
        let ends = spawn(async move { holder.end() });
        join_all([loses, reader, ends]).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn readers_and_writers_of_one_process_wait_and_give_up() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take_with("a", write).await;
        let tasks = [
            process.spawn_holder_with("a", read),
            process.spawn_quitter_with("a", 2, write),
            process.spawn_holder_with("a", read),
            spawn(async move { holder.end() }),
        ];
        join_all(tasks).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_writer_of_another_process_waits_between_readers() {
    explore(POLLS, || async {
        let server = Server::start();
        let (one, other) = (server.process(), server.process());
        let holder = one.take_with("a", read).await;
        let tasks = [
            other.spawn_holder_with("a", write),
            one.spawn_holder_with("a", read),
            spawn(async move { holder.end() }),
        ];
        join_all(tasks).await;
        for process in [&one, &other] {
            process.wait_idle().await;
        }
        server.end([one, other]).await;
        server.assert_all_released();
    });
}

#[test]
fn permits_pass_between_callers_that_leave() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let one = process.take_with("a", two_permits).await;
        let tasks = [
            process.spawn_holder_with("a", two_permits),
            process.spawn_quitter_with("a", 2, two_permits),
            process.spawn_holder_with("a", two_permits),
            spawn(async move { one.end() }),
        ];
        join_all(tasks).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_downgrade_is_dropped_at_any_point() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let holder = process.take_with("a", write).await;
        let reader = process.spawn_holder_with("a", read);
        let downgrades = spawn(async move {
            let downgrade = holder.unwatched().downgrade();
            if let Some(guard) = with_turn_limit(3, downgrade).await {
                assert!(guard.unwrap().is_valid());
            }
        });
        join_all([reader, downgrades]).await;
        process.wait_idle().await;
        server.end([process]).await;
        server.assert_empty();
    });
}

/// Whichever of the two is first, the other one finds it.
#[test]
fn a_loss_races_with_a_downgrade() {
    explore(POLLS, || async {
        let server = Server::start();
        let process = server.process();
        let guard = process.take_with("a", write).await.unwatched();
        let hold = guard.hold().clone();
        let loses = spawn(async move {
            let now = virtual_time::clock().now();
            assert_eq!(hold.on_renewed(now, now, false), None);
        });
        let downgrades = spawn(guard.downgrade());
        let (_, downgraded) = (loses.await.unwrap(), downgrades.await.unwrap());
        let lost = process.locks.stats().lost;
        assert!(
            lost == 0 || downgraded.is_err(),
            "a lost lock is downgraded"
        );
        drop(downgraded);
        process.wait_idle().await;
        server.end([process]).await;
    });
}
