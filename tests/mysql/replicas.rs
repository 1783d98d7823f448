//! A replica, and its promotion.

use lock_runtime::WarningKind;

use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{eventually, patient};

use crate::mysql::hosts::url_at;
use crate::mysql::settings::SAFE;

/// Starts a server and its replica.
fn with_replica() -> (MariaDb, MariaDb) {
    let primary = MariaDb::with(&[&SAFE[..], &["--server-id=1"]].concat());
    let replica = MariaDb::with(&["--server-id=2", "--read-only=ON"]);
    let from = primary.port();
    replica.query(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {from}, MASTER_USER = 'root'; START SLAVE"
    ));
    (primary, replica)
}

#[tokio::test]
async fn replica_that_no_commit_waits_for_is_found() {
    let (primary, replica) = with_replica();
    let locks = connected(patient(primary.url())).await;
    use_once(&locks, "row").await;
    eventually("the table is there", || {
        !replica.query("SHOW TABLES").is_empty()
    });
    let warnings = locks.check_servers().await;
    let kinds: Vec<_> = warnings.iter().map(|it| it.kind()).collect();
    assert_eq!(kinds, [WarningKind::AsynchronousStandby], "{warnings:?}");
    locks.shutdown().await;
}

#[tokio::test]
async fn holder_keeps_its_lock_when_a_replica_is_promoted() {
    let (mut primary, replica) = with_replica();
    let url = url_at(&[primary.port(), replica.port()]);
    let [one, other] = [
        connected(patient(&*url)).await,
        connected(patient(&*url)).await,
    ];
    let guard = one.lock("row").acquire().await.unwrap();
    let number = guard.fencing_token().await.unwrap();
    let position =
        || primary.query("SELECT HEX(record) FROM distributed_locks WHERE name = 'lock:row'");
    let written = position();
    let record = "SELECT HEX(record) FROM distributed_locks WHERE name = 'lock:row'";
    eventually("the replica has it", || {
        replica.try_query(record).as_ref() == Ok(&written)
    });
    primary.kill();
    replica.query("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF");
    until_renewed([&guard]).await;
    assert!(other.lock("row").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = other.lock("row").acquire().await.unwrap();
    assert!(guard.fencing_token().await.unwrap() > number);
    guard.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}
