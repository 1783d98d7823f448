//! Background releases.

use crate::tests::shuttle::explore::{explore, join_all, pause};
use crate::tests::shuttle::process::Process;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use crate::util::time::now;
use shuttle::future::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest time until the replies of pending releases are collected.
const MOMENT: Duration = Duration::from_millis(200);

/// Checks that a lock whose guard was dropped before a shutdown is free after it.
async fn what_was_dropped_before_is_free_after(server: Server, process: Arc<Process>) {
    let held = process.take("a").await.unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    let drops = {
        let dropped = dropped.clone();
        spawn(async move {
            held.end();
            dropped.store(true, Ordering::SeqCst);
        })
    };
    let shuts_down = {
        let process = process.clone();
        spawn(async move {
            let before = dropped.load(Ordering::SeqCst);
            process.locks.shutdown().await;
            assert!(!before || server.is_free(), "a release was not waited for");
            server
        })
    };
    join_all([drops]).await;
    let server = shuts_down.await.unwrap();
    process.end().await;
    server.assert_all_released();
}

#[test]
fn a_shutdown_waits_for_dropped_guards() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        what_was_dropped_before_is_free_after(server, process).await;
    });
}

#[test]
fn a_shutdown_waits_for_pending_releases() {
    explore(MOMENT, || async {
        let server = Server::start();
        let process = server.process_at_home();
        what_was_dropped_before_is_free_after(server, process).await;
    });
}

/// A release without a reply is sent again by the I/O thread.
#[test]
fn a_shutdown_waits_for_retried_releases() {
    explore(Duration::from_secs(1), || async {
        let server = Server::start();
        let process = server.process_with_a_broken_home();
        what_was_dropped_before_is_free_after(server, process).await;
    });
}

/// With more releases than may be pending, the releasing tasks collect replies beside the collector.
#[test]
fn several_tasks_collect_replies_at_once() {
    explore(MOMENT, || async {
        let server = Server::start();
        let process = server.process_at_home();
        let keys = [["a", "b"], ["c", "d"], ["e", "f"]];
        let passes = spawn(async {
            for _ in 0..4 {
                virtual_time::advance(Duration::from_millis(1));
                pause().await;
            }
        });
        let works = keys.map(|keys| {
            let process = process.clone();
            spawn(async move {
                let mut held = Vec::new();
                for key in keys {
                    held.push(process.take(key).await.unwrap());
                }
                for held in held {
                    held.end();
                }
            })
        });
        join_all(works.into_iter().chain([passes])).await;
        process.wait_idle().await;
        process.end().await;
        assert_eq!(server.grants(), 6);
        server.assert_all_released();
    });
}

/// Drops manager and guard in two tasks: the later drop frees all state, but only after the lock is released.
fn the_last_takes_all_with_it(start: fn(&Server) -> Arc<Process>) {
    explore(Duration::from_millis(200), move || async move {
        let server = Server::start();
        let process = start(&server);
        let held = process.take("a").await.unwrap();
        let left = Arc::downgrade(&process.locks.inner.context);
        let ends = spawn(async move { held.end() });
        let goes = spawn(async move { drop(process) });
        join_all([ends, goes]).await;
        while left.strong_count() > 0 {
            virtual_time::sleep_until(now() + Duration::from_millis(10)).await;
        }
        server.assert_all_released();
    });
}

#[test]
fn dropping_a_manager_and_its_guards_frees_all_state() {
    the_last_takes_all_with_it(Server::process);
}

#[test]
fn dropping_a_manager_with_a_pending_release_frees_all_state() {
    the_last_takes_all_with_it(Server::process_at_home);
}
