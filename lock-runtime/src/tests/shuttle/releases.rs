//! Background releases.

use crate::tests::shuttle::explore::{explore, join_all};
use crate::tests::shuttle::process::Process;
use crate::tests::shuttle::server::Server;
use crate::util::shuttle::virtual_time;
use crate::util::time::now;
use shuttle::future::spawn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
    server.end([process]).await;
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

/// Drops manager and guard in two tasks: the later drop frees all state, but only after the lock is released.
#[test]
fn dropping_a_manager_and_its_guards_frees_all_state() {
    explore(Duration::from_millis(200), || async {
        let server = Server::start();
        let process = server.process();
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
