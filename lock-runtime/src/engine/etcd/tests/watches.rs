//! Watches of lines in which claims wait.

use crate::api::manager::LockManager;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use crate::engine::tests::peer::LONG;
use std::future::{Future, ready};

/// Waits for a lock that another client releases meanwhile.
async fn wait_for(server: &ScriptedServer, release: impl Future<Output = ()>) {
    let locks = LockManager::connect(server.config()).await.unwrap();
    server.hold();
    let lock = locks.lock("row").wait(LONG);
    let (guard, ()) = tokio::join!(lock.acquire(), release);
    guard.unwrap().release().await.unwrap();
    locks.shutdown().await;
}

/// Servers report to a watch of the past every 100 ms.
#[tokio::test]
async fn no_watch_begins_in_the_past() {
    let server = ScriptedServer::start().await;
    wait_for(&server, server.release()).await;
    assert_eq!(server.starts(), [0]);
}

#[tokio::test]
async fn a_release_before_the_watch_begins_is_not_missed() {
    let server = ScriptedServer::start().await;
    server.release_before_watches();
    wait_for(&server, ready(())).await;
}
