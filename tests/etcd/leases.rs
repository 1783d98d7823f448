//! Leases of the server, which many locks share.

use tokio::task::JoinSet;

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{millis, patient, soon};

/// Returns the leases of the server.
fn leases(etcd: &Etcd) -> Vec<String> {
    let list = etcd.ctl(&["lease", "list"]);
    list.lines().skip(1).map(str::to_owned).collect()
}

/// The server counts in seconds; the holder does not.
#[tokio::test(flavor = "multi_thread")]
async fn ttl_below_a_second_is_exact() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let lock = locks.lock("row").ttl(millis(300)).renew(false);
    let guard = lock.acquire().await.unwrap();
    assert!(guard.remaining() < millis(300));
    assert!(soon(guard.lost()).await.is_lost());
    // Its key is deleted, though the server's lease lasts.
    let next = connected(patient(etcd.url())).await;
    soon(use_once(&next, "row")).await;
    drop(guard);
    locks.shutdown().await;
    next.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_lease_is_noticed() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let ttl = millis(6000);
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    let kept = locks.lock("kept").acquire().await.unwrap();
    let line = etcd.ctl(&["get", "--prefix", "lock:row/", "-w", "fields"]);
    let lease = line
        .lines()
        .find_map(|line| line.strip_prefix("\"Lease\" : "));
    let lease: i64 = lease.expect("the key has a lease").parse().unwrap();
    etcd.ctl(&["lease", "revoke", &format!("{lease:x}")]);
    let loss = soon(guard.lost()).await;
    assert!(loss.is_lost(), "{loss}");
    // The next one gets a new lease.
    let again = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    until_renewed([&again]).await;
    assert!(kept.is_valid());
    again.release().await.unwrap();
    kept.release().await.unwrap();
    drop(guard);
    locks.shutdown().await;
}

/// A claim that waits keeps its place when its lease ends.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_lease_of_a_waiter_is_replaced() {
    let etcd = Etcd::start();
    let (one, other) = (
        connected(patient(etcd.url())).await,
        connected(patient(etcd.url())).await,
    );
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").ttl(millis(6000)).acquire());
    etcd.until_line("lock:row", 2);
    let waiting = etcd.line("lock:row").pop().unwrap();
    etcd.ctl(&["del", &waiting]);
    etcd.until_line("lock:row", 2);
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_locks_share_a_lease() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let take = |n| locks.lock(format!("row:{n}")).acquire();
    let taken: JoinSet<_> = (0..1100).map(take).collect();
    let guards = soon(taken.join_all()).await;
    let guards: Result<Vec<_>, _> = guards.into_iter().collect();
    let guards = guards.unwrap();
    // One of the connection, and two for the locks.
    assert_eq!(leases(&etcd).len(), 3);
    drop(guards);
    soon(locks.shutdown()).await;
    assert_eq!(leases(&etcd), Vec::<String>::new());
}

/// A watch whose history is gone is made anew.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_under_a_watch_loses_no_grant() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let url = format!("etcd://127.0.0.1:{}", path.port());
    let (one, other) = (
        connected(patient(etcd.url())).await,
        connected(patient(url)).await,
    );
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 2);
    for n in 0..20 {
        etcd.ctl(&["put", "other", &n.to_string()]);
    }
    assert!(etcd.compact());
    path.cut();
    path.heal();
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}
