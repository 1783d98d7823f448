//! Users and their tokens.

use lock_runtime::Config;

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::time::{millis, patient, soon};

const SECRET: &str = "correct-horse";

/// Starts etcd with a user `locks` that may use the keys below `lock:`, and one that may use nothing.
pub fn with_users() -> Etcd {
    let etcd = Etcd::with_user(&[], "locks:correct-horse");
    etcd.ctl(&["user", "add", "nobody:correct-horse"]);
    etcd
}

#[tokio::test(flavor = "multi_thread")]
async fn user_needs_only_the_prefix() {
    let etcd = with_users();
    let config = || Config::new(etcd.url()).credentials("locks", SECRET);
    let (one, other) = (
        connected(patient(config())).await,
        connected(patient(config())).await,
    );
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 2);
    let first = guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    assert!(next.fencing_token().await.unwrap() > first);
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_token_is_replaced() {
    let etcd = with_users();
    let config = || Config::new(etcd.url()).credentials("locks", SECRET);
    let (one, other) = (
        connected(patient(config())).await,
        connected(patient(config())).await,
    );
    let ttl = millis(6000);
    let guard = one.lock("row").ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 2);
    // A new password ends the tokens of all sessions of the user.
    etcd.ctl(&["auth", "disable"]);
    etcd.ctl(&["auth", "enable"]);
    // With a new token.
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}
