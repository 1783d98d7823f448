//! Fencing tokens where the server forgets, and where the lock is somebody else's.

use lock_runtime::LockManager;

use super::site::Site;
use crate::support::manager::connected;
use crate::support::server::Server;
use crate::support::time::{NOISE, within};

async fn next_token(locks: &LockManager) -> u64 {
    let guard = within(NOISE * 4, locks.lock("row").acquire())
        .await
        .unwrap();
    let token = within(NOISE, guard.fencing_token()).await.unwrap();
    guard.release().await.unwrap();
    token
}

#[tokio::test]
async fn they_grow_when_all_keys_are_flushed() {
    let site = Site::start().await;
    let mut last = next_token(site.locks()).await;
    for _ in 0..3 {
        site.query::<()>("FLUSHALL");
        let token = next_token(site.locks()).await;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn they_grow_when_an_empty_server_starts() {
    let mut server = Server::start();
    let locks = connected(server.url()).await;
    let mut last = next_token(&locks).await;
    for _ in 0..3 {
        server.restart();
        // One that knows nothing of the past, and one that does.
        for locks in [&connected(server.url()).await, &locks] {
            let token = next_token(locks).await;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
    }
}

#[tokio::test]
async fn none_is_given_once_the_lock_was_stolen() {
    let site = Site::start().await;
    for theft in ["SET lock:row thief PX 60000", "DEL lock:row"] {
        let guard = site.locks().lock("row").acquire().await.unwrap();
        site.query::<()>(theft);
        let error = within(NOISE, guard.fencing_token()).await.unwrap_err();
        assert!(error.is_lost() && error.key() == Some("row"), "{error}");
        assert!(
            !guard.is_valid(),
            "what the server said holds for the guard too"
        );
        drop(guard);
        site.query::<()>("DEL lock:row");
    }
}

/// A counter for every order would fill the server.
#[tokio::test]
async fn they_leave_no_counter_per_key() {
    let site = Site::start().await;
    for n in 0..50 {
        let guard = site
            .locks()
            .lock(format!("row:{n}"))
            .acquire()
            .await
            .unwrap();
        guard.fencing_token().await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(site.query::<usize>("DBSIZE"), 1);
}
