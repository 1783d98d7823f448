//! Locks that a process keeps between its calls.

use crate::api::lock::Lock;
use crate::options::ReleaseMode;
use crate::tests::shuttle::explore::{explore, join_all, pause, with_turn_limit};
use crate::tests::shuttle::grant_log::TTL;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use shuttle::future::spawn;
use std::time::Duration;

/// How long a claim waits if the first one in the queue counts as dead.
const DEAD_FIRST: Duration = Duration::from_millis(1_500);

fn lazy(lock: Lock) -> Lock {
    lock.release_mode(ReleaseMode::Lazy)
}

/// No caller waits for a poll: each recall arrives, also one that overtakes the reply to the acquisition.
#[test]
fn callers_of_two_processes_recall_the_lock_from_each_other() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let (one, other) = (server.process(), server.process());
        let callers = [&one, &other, &one, &other, &one];
        join_all(callers.map(|process| process.spawn_holder_with("a", lazy))).await;
        server.end([one, other]).await;
        server.assert_all_released();
        server.was_asked_for_no_more();
    });
}

#[test]
fn a_recall_overtakes_the_reply_to_the_acquisition() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        join_all([
            process.spawn_holder_with("a", lazy),
            other.spawn_holder("a"),
        ])
        .await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_recall_races_with_the_next_caller_of_the_keeper() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        process.take_with("a", lazy).await.end();
        assert!(!server.is_free(), "the lock is not kept");
        join_all([
            process.spawn_quitter_with("a", 3, lazy),
            process.spawn_holder("a"),
            other.spawn_holder("a"),
        ])
        .await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

/// The look of a guard may see the other process before its recall arrives.
#[test]
fn the_end_of_a_guard_races_with_its_look() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let held = process.take_with("a", lazy).await;
        let waiter = other.spawn_holder("a");
        with_turn_limit(2, held.guard().wanted()).await;
        held.end();
        join_all([waiter]).await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

/// A recall is not repeated before the next poll.
#[test]
fn a_new_subscription_makes_up_for_recalls_that_were_missed() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let (process, other) = (server.process_that_misses_recalls(), server.process());
        process.take_with("a", lazy).await.end();
        assert!(!server.is_free(), "the lock is not kept");
        join_all([other.spawn_holder("a")]).await;
        server.end([process, other]).await;
        server.assert_all_released();
    });
}

/// A caller that cannot resume the kept lock ends it.
#[test]
fn a_reader_and_a_writer_find_the_lock_kept() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        process.take_with("a", lazy).await.end();
        assert!(!server.is_free(), "the lock is not kept");
        join_all([
            process.spawn_holder_with("a", Lock::read),
            process.spawn_holder_with("a", lazy),
            process.spawn_holder_with("a", Lock::read),
        ])
        .await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// It is kept just before it would be found busy, and no other process would recall it.
#[test]
fn callers_of_the_keeper_do_not_wait_beside_a_kept_lock() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        process.take_with("a", lazy).await.end();
        join_all([(); 3].map(|()| process.spawn_holder_with("a", lazy))).await;
        assert!(!server.is_free(), "the lock is not kept");
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// A shutdown lets bodies finish, and waits for nothing else.
#[test]
fn a_shutdown_races_with_the_next_caller_of_the_keeper() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        process.take_with("a", lazy).await.end();
        let caller = {
            let process = process.clone();
            spawn(async move {
                let lock = lazy(process.locks.lock("a").ttl(TTL).wait(Duration::MAX));
                if let Ok(guard) = lock.acquire().await {
                    process.holding(guard).end();
                }
            })
        };
        process.locks.shutdown_within(TTL).await;
        join_all([caller]).await;
        process.wait_idle().await;
        assert!(server.is_free(), "the lock is kept after the shutdown");
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// The end of the tenure or of the lease, a recall and the next caller, all at once.
#[test]
fn the_end_of_the_tenure_races_with_the_next_caller_and_a_recall() {
    // After a whole ttl, a claim that waits counts as dead, and the one behind it polls once a second.
    let ends = [(TTL / 3, Duration::from_millis(100)), (TTL, DEAD_FIRST)];
    for (passes, patience) in ends {
        explore(patience, move || async move {
            let server = Server::start();
            let (process, other) = (server.process(), server.process());
            process.take_with("a", lazy).await.end();
            let time = spawn(async move {
                virtual_time::advance(passes);
                pause().await;
            });
            join_all([
                time,
                process.spawn_holder_with("a", lazy),
                other.spawn_holder("a"),
            ])
            .await;
            server.end([process, other]).await;
            server.assert_empty();
        });
    }
}
