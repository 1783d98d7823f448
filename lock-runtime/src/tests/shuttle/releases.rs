//! Releases in the background.

use crate::tests::shuttle::explore::{explore, join_all, pause};
use crate::tests::shuttle::process::Process;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use crate::util::time::now;
use shuttle::future::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long releases may be owed before their answers are collected.
const MOMENT: Duration = Duration::from_millis(200);

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
fn a_shutdown_waits_for_what_was_dropped() {
    explore(Duration::ZERO, || async {
        let server = Server::start();
        let process = server.process();
        what_was_dropped_before_is_free_after(server, process).await;
    });
}

#[test]
fn a_shutdown_waits_for_what_is_owed() {
    explore(MOMENT, || async {
        let server = Server::start();
        let process = server.process_at_home();
        what_was_dropped_before_is_free_after(server, process).await;
    });
}

/// Its answer doesn't come: it is sent again, by the I/O thread.
#[test]
fn a_shutdown_waits_for_what_is_taken_over() {
    explore(Duration::from_secs(1), || async {
        let server = Server::start();
        let process = server.process_with_a_broken_home();
        what_was_dropped_before_is_free_after(server, process).await;
    });
}

/// So many that those who release look for answers, beside the task that does so anyway.
#[test]
fn answers_are_looked_for_by_several_at_once() {
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

/// Manager and guard go away on two threads: the last of them takes all with it, and not before the
/// lock is released.
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
fn the_last_of_a_manager_takes_all_with_it() {
    the_last_takes_all_with_it(Server::process);
}

#[test]
fn the_last_of_a_manager_that_owes_a_release_takes_all_with_it() {
    the_last_takes_all_with_it(Server::process_at_home);
}
