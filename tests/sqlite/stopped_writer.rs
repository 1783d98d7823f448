//! A process that is stopped in the middle of a write keeps all others from writing.

use lock_runtime::{LockManager, Report};

use lock_test_support::manager::{until_refused, use_once};
use lock_test_support::servers::Sqlite;
use lock_test_support::time::{millis, patient, soon};

#[tokio::test]
async fn writer_that_is_stopped_is_named_as_the_cause() {
    let file = Sqlite::start();
    let config = patient(file.url()).report(Report::Off);
    // Shorter than the calls wait.
    let config = config.command_timeout(millis(200));
    let locks = LockManager::connect(config).await.unwrap();
    let guard = locks.lock("row").acquire().await.unwrap();
    let writer = file.client();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    until_refused(locks.lock("other"), "look for one that is stopped").await;
    // Whoever only looks does not wait.
    let found = soon(locks.inspect("row")).await.unwrap();
    assert_eq!(found.holders().len(), 1);
    assert!(guard.is_valid());
    writer.execute_batch("COMMIT").unwrap();
    soon(use_once(&locks, "other")).await;
    guard.release().await.unwrap();
    locks.shutdown().await;
}
