//! Users, their nodes, and TLS.

use std::time::Duration;

use lock_runtime::Config;

use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, refusal};
use lock_test_support::time::{NOISE, eventually, millis, patient, within};
use lock_test_support::zookeeper::ZooKeeper;

const SECRET: &str = "correct-horse";

/// User and password may be in the URL, or in the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_belong_to_their_user() {
    let zookeeper = ZooKeeper::start();
    let url = zookeeper.url().replace("://", "://me:correct%2Dhorse@");
    let config = Config::from(zookeeper.url()).credentials("me", SECRET);
    let (one, other) = (
        connected(patient(config)).await,
        connected(patient(&*url)).await,
    );
    let guard = one.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").wait(millis(20_000)).acquire());
    let mut user = zookeeper.client();
    user.login(&format!("me:{SECRET}")).unwrap();
    eventually(NOISE, "it waits", || user.children("/lock/row").len() == 2);
    let mut stranger = zookeeper.client();
    assert!(stranger.children("/lock/row").is_empty());
    for claim in user.children("/lock/row") {
        let path = format!("/lock/row/{claim}");
        assert!(!stranger.delete(&path), "a stranger has deleted a claim");
    }
    assert!(guard.is_valid() && !waiter.is_finished());
    let warnings = one.check_servers().await;
    assert!(
        !warnings
            .iter()
            .any(|warning| warning.to_string().contains("access control")),
        "{warnings:?}"
    );
    guard.release().await.unwrap();
    let next = within(NOISE * 4, waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_needs_the_authority() {
    let certificates = Certificates::issue();
    let zookeeper = ZooKeeper::with_tls(&certificates);
    let config = Config::from(zookeeper.secure_url()).root_certificate(certificates.authority);
    let locks = connected(patient(config.credentials("me", SECRET))).await;
    let guard = locks.lock("row").ttl(millis(1500)).acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    locks.shutdown().await;
    let (error, text) = refusal(zookeeper.secure_url(), SECRET).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(text.contains("certificate"), "{text}");
}

/// Each side takes the other's first message for nonsense.
#[tokio::test(flavor = "multi_thread")]
async fn tls_and_plain_text_do_not_mix() {
    let certificates = Certificates::issue();
    let zookeeper = ZooKeeper::with_tls(&certificates);
    let plain = zookeeper
        .secure_url()
        .replace("zookeepers://", "zookeeper://");
    let (error, _) = refusal(plain, SECRET).await;
    assert!(error.is_unavailable(), "{error}");
    let encrypted = zookeeper.url().replace("zookeeper://", "zookeepers://");
    let config = Config::from(encrypted).root_certificate(certificates.authority);
    let (error, _) = refusal(config, SECRET).await;
    assert!(error.is_unavailable(), "{error}");
}
