//! Members that die or freeze.

use std::time::Duration;

use lock_runtime::{Config, WarningKind};

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::{connected, refusal, until_renewed};
use lock_test_support::servers::Servers;
use lock_test_support::time::{millis, patient, soon};

/// A command timeout that abandons a killed member soon.
const BRISK: Duration = millis(3000);

fn brisk(etcd: &Etcd) -> Config {
    patient(etcd.url()).command_timeout(BRISK)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_leader_ends_no_lock() {
    let mut etcd = Etcd::three();
    let (one, other) = (connected(brisk(&etcd)).await, connected(brisk(&etcd)).await);
    let ttl = millis(15_000);
    let guard = one.lock("row").ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 2);
    let leader = etcd.leader();
    etcd.kill(leader);
    // At the next leader.
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
    etcd.restart(leader);
    etcd.until_healthy();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_members_that_return_keep_the_lock() {
    let mut etcd = Etcd::three();
    let (one, other) = (connected(brisk(&etcd)).await, connected(brisk(&etcd)).await);
    let guard = one.lock("row").acquire().await.unwrap();
    for member in 0..3 {
        etcd.kill(member);
    }
    for member in 0..3 {
        // Each waits for a majority.
        etcd.begin_restart(member);
    }
    etcd.until_healthy();
    assert!(guard.is_valid());
    let waiter = tokio::spawn(other.lock("row").acquire());
    etcd.until_line("lock:row", 2);
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

/// The client of a frozen leader is left alone with it: what that answers later proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn client_of_a_frozen_leader_loses_its_lock() {
    let mut etcd = Etcd::three();
    let leader = etcd.leader();
    let of_leader = Config::new(format!("etcd://127.0.0.1:{}", etcd.port(leader)));
    let one = connected(patient(of_leader).command_timeout(millis(20_000))).await;
    let ports: Vec<_> = (0..3)
        .filter(|member| *member != leader)
        .map(|it| etcd.port(it))
        .collect();
    let others = format!("etcd://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let other = connected(patient(others)).await;

    let guard = one.lock("row").ttl(millis(1500)).acquire().await.unwrap();
    etcd.pause(leader);
    let waiter = tokio::spawn(other.lock("row").acquire());
    let next = soon(waiter).await.unwrap().unwrap();
    assert!(!guard.is_valid(), "there are two holders");
    // It answers what was sent to it meanwhile.
    etcd.resume(leader);
    etcd.until_healthy();
    assert!(!guard.is_valid(), "there are two holders");
    next.release().await.unwrap();
    drop(guard);
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_majority_is_reported() {
    let mut etcd = Etcd::three();
    etcd.kill(0);
    etcd.kill(1);
    let (error, text) = refusal(etcd.url(), "correct-horse").await;
    assert!(error.is_unavailable(), "{text}");
    assert!(text.contains("more than half of the members"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_of_one_member_is_a_warning() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let warnings = locks.check_servers().await;
    let of_kind = |kind| warnings.iter().any(|warning| warning.kind() == kind);
    assert!(of_kind(WarningKind::NoQuorum), "{warnings:?}");
    assert!(!of_kind(WarningKind::NotChecked), "{warnings:?}");
    locks.shutdown().await;
}
