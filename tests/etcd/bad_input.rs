//! Invalid input is rejected in time, with an error that names the cause.

use lock_runtime::{Config, LockError, WarningKind};

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::{connected, refusal};
use lock_test_support::server::{Server, free_port};
use lock_test_support::time::patient;

const SECRET: &str = "correct-horse";

#[tokio::test(flavor = "multi_thread")]
async fn unusable_addresses_are_rejected() {
    for (url, words) in [
        ("etcd://", "a host is missing"),
        ("etcd://u:correct-horse@h:x", "a port is not a number"),
        ("etcd://u:correct-horse@h/path", "only hosts and ports"),
    ] {
        let (error, text) = refusal(url, SECRET).await;
        assert!(matches!(error, LockError::InvalidConfig { .. }), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_servers_are_reported() {
    let redis = Server::start();
    let unused = free_port();
    for port in [unused, redis.port()] {
        let url = format!("etcd://u:{SECRET}@127.0.0.1:{port}");
        let (error, text) = refusal(url, SECRET).await;
        assert!(error.is_unavailable(), "{text}");
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    }
    let (error, text) = refusal("etcd://no-such-host.invalid", SECRET).await;
    assert!(error.is_unavailable(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_majority_is_reported() {
    let mut etcd = Etcd::three();
    etcd.kill(0);
    etcd.kill(1);
    let (error, text) = refusal(Config::new(etcd.url()), SECRET).await;
    assert!(error.is_unavailable(), "{text}");
    assert!(text.contains("more than half of the members"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_and_long_keys_are_rejected() {
    let etcd = Etcd::start();
    let locks = connected(patient(etcd.url())).await;
    let error = locks.lock("row").replicas(1).acquire().await.unwrap_err();
    let option = |error: &LockError| {
        matches!(
            error,
            LockError::Unsupported {
                operation: "replicas",
                ..
            }
        )
    };
    assert!(option(&error), "{error}");
    let error = locks.lock("a".repeat(70_000)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
    locks.shutdown().await;
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
