//! What the server tells a waiter may be lost.

use lock_runtime::Config;

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{patient, soon};

#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_replies_is_served() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let one = connected(patient(etcd.url())).await;
    let through = Config::new(format!("etcd://127.0.0.1:{}", path.port()));
    let other = connected(patient(through)).await;
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 2);
    // What the watch reports is lost.
    path.hold_replies();
    guard.release().await.unwrap();
    path.cut();
    path.heal();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}
