//! A member whose database is full refuses all puts and new leases.

use lock_runtime::{LockError, LostCause};

use crate::conformance::log::Log;
use lock_test_support::etcd::Etcd;
use lock_test_support::manager::{connected, until_refused, use_once};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{eventually, millis, patient, soon};

/// The server takes pages in steps; a smaller quota would be full at once.
const QUOTA: &str = "4194304";

fn fill(etcd: &Etcd) {
    let value = "x".repeat(100_000);
    for n in 0..100 {
        let put = etcd.command(&["put", &format!("filler:{n}"), &value]);
        if !{ put }.output().unwrap().status.success() {
            assert!(etcd.ctl(&["alarm", "list"]).contains("NOSPACE"));
            return;
        }
    }
    panic!("the database is not full");
}

fn clear(etcd: &Etcd) {
    etcd.ctl(&["del", "--prefix", "filler:"]);
    assert!(etcd.compact());
    etcd.ctl(&["defrag"]);
    etcd.ctl(&["alarm", "disarm"]);
}

/// A key can be deleted without space. A renewal needs a new lease, so the others lose their locks, and by no
/// one else's doing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_release_or_lose_their_locks_while_the_database_is_full() {
    let log = Log::begin();
    let etcd = Etcd::with_options(&["--quota-backend-bytes", QUOTA]);
    let path = Proxy::to(etcd.port(0));
    let url = format!("etcd://127.0.0.1:{}", path.port());
    let locks = connected(patient(url)).await;
    let guard = locks.lock("row").ttl(millis(3000)).acquire().await.unwrap();
    let released = locks.lock("released").acquire().await.unwrap();
    fill(&etcd);

    until_refused(locks.lock("other"), "database space exceeded").await;

    released.release().await.unwrap();
    assert_eq!(etcd.line("lock:released").len(), 0);
    let loss = soon(guard.lost()).await;
    let expired = |loss: &LockError| matches!(loss, LockError::Lost { cause, .. } if *cause == LostCause::Expired);
    assert!(expired(&loss), "{loss:?}");
    eventually("the log names the cause and a remedy", || {
        log.count(&path, &["WARN", "disarm the alarm `NOSPACE`"]) > 0
    });
    drop(guard);

    clear(&etcd);
    soon(use_once(&locks, "other")).await;
    locks.shutdown().await;
}
