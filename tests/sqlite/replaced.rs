//! A file that is deleted, or replaced by another one, while processes use it.

use std::fs;

use lock_runtime::LockManager;

use super::clocks;
use lock_test_support::servers::{Servers, Sqlite};
use lock_test_support::time::{patient, soon};
use lock_test_support::worker::Worker;

/// Two processes, of which the first holds a lock, and both have used the file.
async fn two(file: &Sqlite) -> [LockManager; 2] {
    let connect = || LockManager::connect(patient(file.url()));
    [connect().await.unwrap(), connect().await.unwrap()]
}

async fn is_lost_once(replace: impl FnOnce(&Sqlite)) {
    let file = Sqlite::start();
    let locks = two(&file).await;
    let [first, second] = &locks;
    let guard = first.lock("row").acquire().await.unwrap();
    assert!(second.lock("row").try_acquire().await.unwrap().is_none());
    replace(&file);
    let next = soon(second.lock("row").acquire()).await.unwrap();
    // The first sees the same file, whatever it does next.
    assert!(first.lock("row").try_acquire().await.unwrap().is_none());
    let error = guard.fencing_token().await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    drop(guard);
    assert!(next.is_valid());
    next.release().await.unwrap();
    let again = first.lock("row").acquire().await.unwrap();
    assert!(second.lock("row").try_acquire().await.unwrap().is_none());
    again.release().await.unwrap();
    for locks in locks {
        locks.shutdown().await;
    }
}

fn delete(file: &Sqlite, suffix: &str) {
    // The processes may have opened a new file, without these.
    let _ = fs::remove_file(format!("{}{suffix}", file.path().display()));
}

#[tokio::test]
async fn locks_of_a_deleted_file_are_lost() {
    is_lost_once(|file| delete(file, "")).await;
}

#[tokio::test]
async fn locks_of_a_file_deleted_with_its_log_are_lost() {
    is_lost_once(|file| {
        ["", "-wal", "-shm"]
            .into_iter()
            .for_each(|it| delete(file, it))
    })
    .await;
}

#[tokio::test]
async fn locks_of_a_replaced_file_are_lost() {
    let other = Sqlite::start();
    let locks = LockManager::connect(patient(other.url())).await.unwrap();
    locks.shutdown().await;
    drop(locks);
    is_lost_once(|file| {
        delete(file, "-wal");
        fs::rename(other.path(), file.path()).unwrap();
    })
    .await;
}

/// Such as by a program that deletes old files. A process that comes then makes a new one, and would not see
/// what others write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_outlast_the_index_of_the_log() {
    let mut file = Sqlite::start();
    file.clear(0);
    let locks = LockManager::connect(patient(file.url())).await.unwrap();
    let guard = locks.lock("row").acquire().await.unwrap();
    delete(&file, "-shm");
    let mut newcomer = Worker::start(clocks::process, &[&file.url()]);
    assert_eq!(newcomer.expect("held"), "false");
    guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    newcomer.order("again");
    assert_eq!(newcomer.expect("held"), "true");
    assert!(locks.lock("row").try_acquire().await.unwrap().is_none());
    newcomer.order("again");
    assert_eq!(newcomer.expect("held"), "true");
    locks.shutdown().await;
}
