//! Ends and renewals of leases, and concurrent checks of them.

use crate::api::guarded::Guarded;
use crate::lock::watchdog::renewable::Renewable;
use crate::tests::shuttle::explore::{explore, join_all, pause, with_turn_limit};
use crate::tests::shuttle::grant_log::TTL;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::execution::random_fraction;
use crate::util::shuttle::virtual_time;
use crate::util::time::now;
use shuttle::future::{spawn, yield_now};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn every_listener_is_notified_of_a_loss() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let guard = Arc::new(process.take("a").await.unwrap().unwatched());
        let hold = guard.hold().clone();
        let loses = spawn(async move {
            let now = virtual_time::clock().now();
            assert_eq!(hold.on_renewed(now, now, false), None);
        });
        let listens = [(); 2].map(|()| {
            let guard = guard.clone();
            spawn(async move { assert!(guard.lost().await.is_lost()) })
        });
        let works = spawn(async move {
            let body = Guarded::new(&guard, std::future::pending::<()>());
            assert!(body.await.unwrap_err().is_lost());
        });
        join_all(listens.into_iter().chain([loses, works])).await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn the_watchdog_reports_the_end_of_a_lease() {
    explore(2 * TTL, || async {
        let server = Server::start();
        let process = server.process();
        let lock = process.locks.lock("a").renew(false);
        let guard = lock.acquire().await.unwrap();
        let later = spawn(async { virtual_time::advance(TTL) });
        assert!(guard.lost().await.is_lost());
        assert!(guard.release().await.unwrap_err().is_lost());
        join_all([later]).await;
        server.end([process]).await;
        server.assert_empty();
    });
}

#[test]
fn long_holds_are_renewed_in_time_beside_short_ones() {
    explore(2 * TTL, || async {
        let server = Server::start();
        let process = server.process();
        let long = ["a", "b"].map(|key| {
            let process = process.clone();
            spawn(async move {
                let held = process.take(key).await.unwrap();
                let deadline = now() + TTL * 3 / 2;
                virtual_time::sleep_until(deadline).await;
                held.guard().ensure_valid_for(Duration::ZERO).unwrap();
                held.end();
            })
        });
        let short = ["a", "c"].map(|key| process.spawn_holder(key));
        join_all(long.into_iter().chain(short)).await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

#[test]
fn a_release_races_with_a_renewal() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let holds = process.spawn_holder("a");
        let passes = spawn(async { virtual_time::advance(TTL / 2) });
        join_all([holds, passes]).await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// Leases end while they are granted.
#[test]
fn a_grant_races_with_the_end_of_its_lease() {
    explore(TTL, || async {
        let server = Server::start();
        let process = server.process();
        let works = ["a"; 3].map(|key| process.spawn_holder(key));
        let passes = spawn(async {
            for _ in 0..3 {
                virtual_time::advance(TTL);
                yield_now().await;
            }
        });
        join_all(works.into_iter().chain([passes])).await;
        server.end([process]).await;
        server.assert_empty();
    });
}

/// Renewals and their replies are late by any time, while another process waits for the lock.
#[test]
fn a_late_renewal_extends_the_lease_no_further_than_the_server() {
    explore(TTL, || async {
        let server = Server::start();
        let (process, other) = (server.process(), server.process());
        let held = process.take("a").await.unwrap();
        let waits = other.spawn_holder("a");
        let passed = Arc::new(AtomicBool::new(false));
        let passes = {
            let passed = passed.clone();
            spawn(async move {
                for _ in 0..4 {
                    virtual_time::advance(TTL.mul_f64(random_fraction().unwrap_or_default()));
                    yield_now().await;
                }
                passed.store(true, Ordering::SeqCst);
            })
        };
        let holds = spawn(async move {
            while !passed.load(Ordering::SeqCst) {
                held.work().await;
                yield_now().await;
            }
            held.end();
        });
        join_all([waits, passes, holds]).await;
        server.end([process, other]).await;
        server.assert_empty();
    });
}

/// The lock is handed between guards with long and short ttls while renewals of each are in flight, whose
/// replies come late or never, and another process waits for it.
#[test]
fn a_lease_does_not_outlast_a_shorter_renewal() {
    const SHORT: Duration = Duration::from_millis(800);

    explore(2 * TTL, || async {
        let server = Server::start();
        let (process, other) = (server.process_that_loses_replies(), server.process());
        let held = process.take("a").await.unwrap();
        let works = process.spawn_holder_for("a", SHORT);
        let passed = Arc::new(AtomicBool::new(false));
        let holds = {
            let (process, passed) = (process.clone(), passed.clone());
            spawn(async move {
                let held = process.take_for("a", TTL).await.unwrap();
                while !passed.load(Ordering::SeqCst) {
                    held.work().await;
                    yield_now().await;
                }
                held.end();
            })
        };
        let waits = other.spawn_holder("a");
        // A renewal is due.
        virtual_time::advance(TTL / 2);
        let ends = spawn(async move {
            pause().await;
            held.end();
        });
        let passes = spawn(async move {
            for _ in 0..4 {
                yield_now().await;
                virtual_time::advance(SHORT / 2);
            }
            passed.store(true, Ordering::SeqCst);
        });
        join_all([works, holds, waits, ends, passes]).await;
        server.end([process, other]).await;
        server.assert_empty();
    });
}

/// The guard ends on another thread and hands the lock off while its token is in flight.
#[test]
fn fencing_tokens_increase_from_guard_to_guard() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let last = Arc::new(Mutex::new(0));
        let workers = [(); 3].map(|()| {
            let (process, last) = (process.clone(), last.clone());
            spawn(async move {
                let held = process.take("a").await.unwrap();
                let token = with_turn_limit(4, held.guard().fencing_token()).await;
                if let Some(token) = token {
                    let token = token.unwrap();
                    let before = std::mem::replace(&mut *last.lock().unwrap(), token);
                    assert!(before < token, "{before} came before {token}");
                }
                join_all([spawn(async move {
                    pause().await;
                    held.end();
                })])
                .await;
            })
        });
        join_all(workers).await;
        server.end([process]).await;
        server.assert_all_released();
    });
}

/// The hold ends while its token is in flight: the call returns the token, or reports the loss.
#[test]
fn a_fencing_token_requested_by_an_ending_hold_has_a_reply() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        let held = process.take("a").await.unwrap();
        let hold = held.guard().hold().clone();
        let asks = spawn(async move {
            if let Err(error) = hold.fencing_token().await {
                assert!(error.is_lost(), "{error}");
            }
        });
        let ends = spawn(async move { held.end() });
        join_all([asks, ends, process.spawn_holder("a")]).await;
        server.end([process]).await;
        server.assert_all_released();
    });
}
