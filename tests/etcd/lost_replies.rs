//! Requests whose replies are lost leave nothing behind.

use lock_runtime::{Config, LockManager};

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, millis, patient, within};

async fn through(path: &Proxy) -> LockManager {
    let config = Config::new(format!("etcd://127.0.0.1:{}", path.port()));
    let config = config.connect_timeout(millis(5000));
    connected(config.command_timeout(millis(700))).await
}

/// A client whose replies can be lost, with a lease of the server, and one that reaches the server directly.
struct Two {
    etcd: Etcd,
    path: Proxy,
    one: LockManager,
    other: LockManager,
}

impl Two {
    async fn start() -> Two {
        let etcd = Etcd::start();
        let path = Proxy::to(etcd.port(0));
        let (one, other) = (through(&path).await, connected(patient(etcd.url())).await);
        let warm = one.lock("warm").acquire().await.unwrap();
        warm.release().await.unwrap();
        Two {
            etcd,
            path,
            one,
            other,
        }
    }

    /// Acquires the lock as the client that reaches the server.
    async fn acquire(&self) {
        let next = self.other.lock("row").wait(millis(20_000)).acquire();
        let next = within(millis(20_000), next).await.unwrap();
        next.release().await.unwrap();
    }

    async fn end(self) {
        self.acquire().await;
        self.one.shutdown().await;
        self.other.shutdown().await;
    }
}

/// The server grants the lock, and no client learns of it.
#[tokio::test(flavor = "multi_thread")]
async fn acquisition_without_a_reply_frees_the_lock() {
    let two = Two::start().await;
    for _ in 0..3 {
        two.path.hold_replies();
        let error = two
            .one
            .lock("row")
            .wait(millis(600))
            .acquire()
            .await
            .unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        two.etcd.until_line("lock:row", 1);
        two.path.cut();
        two.path.heal();
        two.acquire().await;
    }
    two.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiter_without_replies_is_served() {
    let etcd = Etcd::start();
    let path = Proxy::to(etcd.port(0));
    let (one, other) = (connected(patient(etcd.url())).await, through(&path).await);
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").wait(millis(30_000)).acquire());
    etcd.until_line("lock:row", 2);
    // What the watch reports is lost.
    path.hold_replies();
    guard.release().await.unwrap();
    path.cut();
    path.heal();
    let next = within(NOISE * 8, waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}
