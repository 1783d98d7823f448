//! Looking at a lock changes nothing, and needs few rights.

use std::error::Error;

use lock_runtime::{Config, LockInfo};

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::time::{millis, patient, soon};

use super::access::with_users;

/// Returns all keys with their revisions, the revision of the cluster, and the leases.
fn state(etcd: &Etcd) -> [String; 2] {
    let keys = etcd.ctl(&["get", "", "--prefix", "-w", "json"]);
    [keys, etcd.ctl(&["lease", "list"])]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_changes_nothing() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let before = state(&etcd);
    assert!(before[0].contains("revision"), "{before:?}");
    for _ in 0..3 {
        let found = locks.inspect("never").await.unwrap();
        assert!(found.holders().is_empty());
    }
    assert_eq!(state(&etcd), before);
    locks.shutdown().await;
}

/// A connection writes its epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_that_may_read_can_look() {
    let etcd = with_users();
    etcd.ctl(&["role", "add", "viewers"]);
    for (right, prefix) in [("read", "lock:"), ("readwrite", "lock:::epochs:")] {
        etcd.ctl(&[
            "role",
            "grant-permission",
            "--prefix=true",
            "viewers",
            right,
            prefix,
        ]);
    }
    etcd.ctl(&["user", "grant-role", "nobody", "viewers"]);
    let user = |name| patient(Config::new(etcd.url()).credentials(name, "correct-horse"));
    let (locks, viewer) = (
        connected(user("locks")).await,
        connected(user("nobody")).await,
    );
    let guard = locks.lock("row").acquire().await.unwrap();
    let found = viewer.inspect("row").await.unwrap();
    let holder = found.holders().first().expect("it is held");
    assert_eq!(holder.process(), Some(locks.process_id()));
    let listed = viewer.list("").await.unwrap();
    assert_eq!(
        listed.iter().map(LockInfo::key).collect::<Vec<_>>(),
        ["row"]
    );
    let reported = async {
        while viewer.processes().await.unwrap().is_empty() {
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(reported).await;
    for refused in [
        viewer.ask_for_reports().await.err(),
        viewer.revoke("row").force().await.err(),
    ] {
        let refused = refused.expect("it may only read");
        let cause = refused.source().expect("the server says why").to_string();
        assert!(cause.contains("permission denied"), "{cause}");
    }
    assert!(guard.is_valid());
    let refused = viewer.lock("other").try_acquire().await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused}");
    guard.release().await.unwrap();
    locks.shutdown().await;
    viewer.shutdown().await;
}
