//! Ways to connect to a cluster, and the errors when that fails.

use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager, Warning, WarningKind};

use super::shared;
use lock_test_support::certificates::Certificates;
use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, refusal};
use lock_test_support::server::{Server, free_port};
use lock_test_support::time::{eventually, millis, patient, soon};
use tokio::task::JoinSet;

const SECRET: &str = "correct-horse";
const LONG: Duration = Duration::from_secs(60);

/// Asserts that locks of all nodes can be acquired, waited for by another process, and released.
async fn works(config: impl Into<Config>) {
    let config = patient(config);
    let locks = connected(config.clone()).await;
    let others = connected(config).await;
    for n in 0..6 {
        let key = format!("row:{n}");
        let held = locks.lock(&key).acquire().await.unwrap();
        let next = others.lock(&key).acquire();
        let (token, next) = tokio::join!(
            async {
                tokio::time::sleep(millis(30)).await;
                let token = held.fencing_token().await.unwrap();
                held.release().await.unwrap();
                token
            },
            soon(next)
        );
        let next = next.unwrap();
        assert!(next.fencing_token().await.unwrap() > token);
        next.release().await.unwrap();
    }
    locks.shutdown().await;
    others.shutdown().await;
}

async fn is_misconfigured(config: impl Into<Config>, word: &str) {
    let (error, text) = refusal(config, SECRET).await;
    let misconfigured = matches!(error, LockError::InvalidConfig { .. });
    assert!(
        misconfigured && text.contains(word),
        "no `{word}` in: {text}"
    );
}

#[tokio::test]
async fn url_that_does_not_fit_server_is_rejected() {
    let cluster = shared::cluster();
    is_misconfigured(cluster.node(0).url(), "`redis-cluster://`").await;
    is_misconfigured(cluster.node(4).url(), "`redis-cluster://`").await;
    let server = Server::start();
    let url = server.url().replace("redis:", "redis-cluster:");
    is_misconfigured(url.as_str(), "`redis://`").await;
    is_misconfigured(format!("{}/1", cluster.url()), "database").await;
    is_misconfigured(cluster.url().replacen(',', ",,", 1), "h1:6379,h2,h3").await;
    for prefix in ["{", "lock{}:"] {
        let config = Config::new(cluster.url()).prefix(prefix);
        is_misconfigured(config, "brace").await;
    }
    works(Config::new(cluster.url()).prefix("{all in one}:")).await;
}

/// Any node suffices, also a replica, and unreachable nodes cost no time.
#[tokio::test]
async fn one_reachable_node_is_enough() {
    let mut cluster = Cluster::start();
    let one = |node: usize| format!("127.0.0.1:{}", cluster.node(node).port());
    let unused = format!("127.0.0.1:{}", free_port());
    works(format!("redis-cluster://{}", one(1))).await;
    works(format!("redis-cluster://{}", one(5))).await;
    // To await a node that does not reply would take longer than this test.
    let connect = |url: String| soon(LockManager::connect(patient(url).connect_timeout(LONG)));
    connect(format!("redis-cluster://{unused},{}", one(3)))
        .await
        .unwrap();

    let frozen = format!("redis-cluster://{},{}", one(4), one(0));
    cluster.node_mut(4).pause();
    // Each begins with another node.
    let many: JoinSet<_> = (0..12).map(|_| connect(frozen.clone())).collect();
    for connected in many.join_all().await {
        connected.unwrap();
    }
    cluster.node_mut(4).resume();

    let (error, text) = refusal(format!("redis-cluster://{unused}"), SECRET).await;
    assert!(error.is_unavailable(), "{text}");
}

/// Nodes may announce any name.
#[tokio::test]
async fn announced_node_names_are_resolved() {
    let cluster = Cluster::start();
    let url = format!("redis-cluster://localhost:{}", cluster.node(2).port());
    let announce = |option: &str| {
        (0..cluster.node_count())
            .for_each(|n| cluster.node(n).query(&format!("CONFIG SET {option}")));
    };
    let reported = |name: Option<&str>| {
        eventually("all nodes announce the name", || {
            let known = |n| {
                type Entry = Vec<redis::Value>;
                let slots: Vec<Entry> = cluster.node(n).query("CLUSTER SLOTS");
                slots.iter().all(|entry| match &entry[2] {
                    redis::Value::Array(node) => match (&node[0], name) {
                        (redis::Value::BulkString(host), Some(name)) => host == name.as_bytes(),
                        (redis::Value::Nil, None) => true,
                        _ => false,
                    },
                    _ => false,
                })
            };
            (0..cluster.node_count()).all(known)
        });
    };
    announce("cluster-preferred-endpoint-type unknown-endpoint");
    reported(None);
    works(url.as_str()).await;
    announce("cluster-preferred-endpoint-type hostname");
    reported(Some("?"));
    works(url.as_str()).await;
    announce("cluster-announce-hostname localhost");
    reported(Some("localhost"));
    works(url.as_str()).await;
}

#[tokio::test]
async fn password_and_tls_are_accepted() {
    let certificates = Certificates::issue();
    let authority = certificates.authority.clone();
    let plan = Cluster::plan().password("pass@word").tls(certificates);
    let cluster = plan.start();
    let url = cluster
        .url()
        .replace("redis-cluster://", "rediss-cluster://:pass%40word@");
    let trusting = |url: &str| Config::new(url).root_certificate(authority.clone());
    works(trusting(&url)).await;
    let bare = url.replace(":pass%40word@", "");
    works(trusting(&bare).credentials("", "pass@word")).await;

    is_misconfigured(trusting(&bare).credentials("", SECRET), "password").await;
    is_misconfigured(trusting(&bare), "password").await;
    let (error, text) = refusal(&*url, SECRET).await;
    assert!(error.is_unavailable(), "{text}");
    assert!(text.to_lowercase().contains("certificate"), "{text}");
}

/// Uses the permissions that `PROTOCOL.md` lists.
#[tokio::test]
async fn documented_permissions_suffice() {
    let protocol = include_str!("../../PROTOCOL.md");
    let (_, permissions) = protocol.split_once("## Permissions").unwrap();
    let (needed, _) = permissions.split_once("With Sentinels").unwrap();
    let words = needed.split(|c: char| c.is_whitespace() || c == '`');
    let rules: Vec<_> = words
        .filter(|word| word.starts_with(['~', '&', '+']))
        .collect();
    let cluster = shared::cluster();
    let user = format!("ACL SETUSER clerk on >{SECRET} {}", rules.join(" "));
    (0..cluster.node_count()).for_each(|n| cluster.node(n).query(&user));
    let clerk = || Config::new(cluster.url()).credentials("clerk", SECRET);
    works(clerk()).await;
    let looks = connected(clerk()).await.inspect("row:1").await;
    assert!(looks.unwrap().holders().is_empty());
    let warnings = connected(clerk()).await.check_servers().await;
    let not_checked = |warning: &Warning| warning.kind() == WarningKind::NotChecked;
    assert!(!warnings.iter().any(not_checked), "{warnings:?}");
    for n in 0..cluster.node_count() {
        cluster
            .node(n)
            .query::<()>("ACL SETUSER clerk -cluster|slots");
    }
    let (_, text) = refusal(clerk(), SECRET).await;
    assert!(text.contains("cluster|slots"), "{text}");
}
