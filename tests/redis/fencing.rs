//! Fencing tokens after the server lost its data, and after the lock was lost.

use lock_runtime::LockManager;

use super::fixture::Fixture;
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{patient, soon};

async fn next_token(locks: &LockManager) -> u64 {
    let guard = soon(locks.lock("row").acquire()).await.unwrap();
    let token = soon(guard.fencing_token()).await.unwrap();
    guard.release().await.unwrap();
    token
}

#[tokio::test]
async fn fencing_tokens_increase_after_flush() {
    let fixture = Fixture::start().await;
    let mut last = next_token(fixture.locks()).await;
    for _ in 0..3 {
        fixture.query::<()>("FLUSHALL");
        let token = next_token(fixture.locks()).await;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

#[tokio::test]
async fn fencing_tokens_increase_after_restart_without_data() {
    let mut server = Server::start();
    let locks = connected(patient(server.url())).await;
    let mut last = next_token(&locks).await;
    for _ in 0..3 {
        server.restart();
        // A new manager, and one that has seen earlier tokens.
        for locks in [&connected(patient(server.url())).await, &locks] {
            let token = next_token(locks).await;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
    }
}

#[tokio::test]
async fn stolen_lock_gets_no_fencing_token() {
    let fixture = Fixture::start().await;
    for theft in ["SET lock:row thief PX 60000", "DEL lock:row"] {
        let guard = fixture.locks().lock("row").acquire().await.unwrap();
        fixture.query::<()>(theft);
        let error = soon(guard.fencing_token()).await.unwrap_err();
        assert!(error.is_lost() && error.key() == Some("row"), "{error}");
        assert!(
            !guard.is_valid(),
            "the server's reply invalidates the guard"
        );
        drop(guard);
        fixture.query::<()>("DEL lock:row");
    }
}

/// One counter per key would fill the server.
#[tokio::test]
async fn fencing_tokens_leave_no_counter_per_key() {
    let fixture = Fixture::start().await;
    for n in 0..50 {
        let guard = fixture
            .locks()
            .lock(format!("row:{n}"))
            .acquire()
            .await
            .unwrap();
        guard.fencing_token().await.unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(fixture.key_count(), 1);
}
