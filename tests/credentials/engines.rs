//! What is special to etcd and ZooKeeper.

use std::io::Write;
use std::process::Stdio;

use lock_runtime::Config;

use super::providers::bad_providers_are_reported;
use super::rotation::{Account, rotate};
use super::{SECRET, USER, Vault};
use lock_test_support::etcd::Etcd;
use lock_test_support::manager::{connected, use_once};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{eventually, patient};
use lock_test_support::zookeeper::ZooKeeper;
use tokio::task::spawn_blocking;

struct EtcdBehindProxy {
    etcd: Etcd,
    proxy: Proxy,
}

fn etcd() -> EtcdBehindProxy {
    let etcd = Etcd::with_user(&["--bcrypt-cost=4"], &format!("{USER}:{SECRET}-0"));
    let proxy = Proxy::to(etcd.port(0));
    EtcdBehindProxy { etcd, proxy }
}

impl EtcdBehindProxy {
    fn config(&self) -> Config {
        Config::new(format!("etcd://127.0.0.1:{}", self.proxy.port()))
    }
}

impl Account for EtcdBehindProxy {
    /// It also ends the tokens of the user.
    fn set_password(&self, password: &str, _: bool) {
        let words = ["user", "passwd", USER, "--interactive=false"];
        let mut command = self.etcd.command(&words);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut running = command.spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        writeln!(input, "{password}").unwrap();
        drop(input);
        assert!(running.wait().unwrap().success());
    }

    fn kill_connections(&self) -> usize {
        self.proxy.cut();
        self.proxy.heal();
        1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_etcd_changes() {
    let etcd = spawn_blocking(etcd).await.unwrap();
    let config = etcd.config();
    rotate(etcd, config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_etcd_fails_with_the_error_of_the_provider() {
    let etcd = spawn_blocking(etcd).await.unwrap();
    bad_providers_are_reported(etcd.config()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_zookeeper_fails_with_the_error_of_the_provider() {
    let zookeeper = spawn_blocking(ZooKeeper::start).await.unwrap();
    bad_providers_are_reported(Config::new(zookeeper.url())).await;
}

/// Nodes belong to the user, and a session logs in anew on each connection.
#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_asks_before_each_connection() {
    let zookeeper = spawn_blocking(ZooKeeper::start).await.unwrap();
    let (vault, proxy) = (Vault::new(), Proxy::to(zookeeper.port(0)));
    let config = Config::new(format!("zookeeper://127.0.0.1:{}", proxy.port()));
    let locks = connected(patient(vault.config(config))).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let (mut user, mut stranger) = (zookeeper.client(), zookeeper.client());
    user.login(&format!("{USER}:{SECRET}-0")).unwrap();
    assert_eq!(user.children("/lock/row").len(), 1);
    assert!(stranger.children("/lock/row").is_empty());
    for _ in 0..5 {
        let before = vault.asked();
        proxy.cut();
        proxy.heal();
        eventually("it is asked", || vault.asked() > before);
        use_once(&locks, "other").await;
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    locks.shutdown().await;
}
