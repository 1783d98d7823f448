//! Members with replicas, which must acknowledge a lock before its member counts.

use lock_runtime::LockManager;

use super::members::Members;
use lock_test_support::manager::until_renewed;
use lock_test_support::replica::{master, replica_of};
use lock_test_support::time::{PATIENCE, millis, soon};

#[tokio::test]
async fn member_counts_only_with_acknowledging_replica() {
    let members = Members((0..3).map(|_| master()).collect());
    let mut replicas: Vec<_> = members.0.iter().map(replica_of).collect();
    let both = [members.connect().await, members.connect().await];
    let lock = |locks: &LockManager| locks.lock("door").ttl(millis(12_000)).replicas(1);
    replicas[0].kill();
    let guard = lock(&both[0]).acquire().await.unwrap();
    let next = tokio::spawn(lock(&both[1]).wait(PATIENCE).acquire());
    // Two members suffice for renewal and for the next holder.
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    let guard = soon(next).await.unwrap().unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();

    replicas[1].kill();
    let error = lock(&both[0])
        .wait(millis(800))
        .acquire()
        .await
        .unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    members.until_held_by("door", &[]);
    // A lock that requires no replicas is acquired.
    let guard = both[0].lock("door").acquire().await.unwrap();
    guard.release().await.unwrap();
}
