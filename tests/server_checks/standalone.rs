//! A standalone server.

use std::time::Instant;

use lock_runtime::{Config, LockError, LockManager, WarningKind};

use super::{assert_reported, name, server, strict, warnings};
use lock_test_support::manager::{connected, until_pinged, use_once};
use lock_test_support::permissions;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, Timed, millis, patient, soon};

#[tokio::test]
async fn durable_server_has_no_warnings() {
    let server = server(&[]);
    assert_reported(&warnings(patient(server.url())).await, &name(&server), &[]);
    strict(patient(server.url())).await.unwrap();
    let socket = format!("redis+unix://{}", server.socket().display());
    assert!(warnings(socket).await.is_empty());
    assert!(warnings("memory://").await.is_empty());
    strict("memory://").await.unwrap();
}

#[tokio::test]
async fn non_durable_server_is_reported() {
    let nothing = Server::start();
    let reported = [(WarningKind::NotDurable, "`appendonly` is `no`")];
    assert_reported(
        &warnings(patient(nothing.url())).await,
        &name(&nothing),
        &reported,
    );

    let late = server(&["--appendfsync", "everysec"]);
    let reported = [(WarningKind::NotDurable, "`appendfsync` is `everysec`")];
    assert_reported(
        &warnings(patient(late.url())).await,
        &name(&late),
        &reported,
    );
}

#[tokio::test]
async fn evicting_server_is_reported() {
    let full = server(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    let reported = [(
        WarningKind::Eviction,
        "`maxmemory-policy` is `volatile-ttl`",
    )];
    assert_reported(
        &warnings(patient(full.url())).await,
        &name(&full),
        &reported,
    );

    let boundless = server(&["--maxmemory-policy", "allkeys-lru"]);
    assert!(warnings(patient(boundless.url())).await.is_empty());
}

#[tokio::test]
async fn replica_is_reported() {
    let master = server(&[]);
    let port = master.port().to_string();
    let replica = server(&["--replicaof", &format!("127.0.0.1 {port}")]);
    let found = format!("a replica of `127.0.0.1:{port}`");
    let reported = [(WarningKind::ConnectedToReplica, &*found)];
    assert_reported(
        &warnings(patient(replica.url())).await,
        &name(&replica),
        &reported,
    );
}

#[tokio::test]
async fn cluster_node_is_rejected_as_standalone_server() {
    let node = server(&["--cluster-enabled", "yes"]);
    let error = LockManager::connect(node.url()).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("redis-cluster://"), "{words}");
}

/// A user with only the permissions that locks need, then with some that the check needs.
#[tokio::test]
async fn settings_without_permission_are_reported_as_not_checked() {
    let server = server(&[]);
    let [commands, _] = permissions::commands();
    server.query::<()>(&format!(
        "ACL SETUSER clerk on >s3cret ~lock:* &lock:* {commands}"
    ));
    let config = || Config::new(server.url()).credentials("clerk", "s3cret");
    let reported = [(WarningKind::NotChecked, "+config|get")];
    assert_reported(&warnings(config()).await, &name(&server), &reported);

    server.query::<()>("ACL SETUSER clerk +info");
    let reported = [(WarningKind::NotChecked, "`appendfsync` (`CONFIG GET`")];
    assert_reported(&warnings(config()).await, &name(&server), &reported);

    server.query::<()>("ACL SETUSER clerk +config|get");
    strict(config()).await.unwrap();
}

#[tokio::test]
async fn check_of_unavailable_server_ends_within_connect_timeout() {
    let _timed = Timed::start();
    let mut server = server(&[]);
    let limit = millis(500);
    let config = Config::new(server.url()).connect_timeout(limit);
    let locks = connected(config).await;
    server.pause();
    let start = Instant::now();
    let warnings = soon(locks.check_servers()).await;
    let took = start.elapsed();
    assert!(took <= limit + NOISE, "{took:?}");
    let reported = [(WarningKind::NotChecked, "can't be queried")];
    assert_reported(&warnings, &name(&server), &reported);
    server.resume();
}

#[tokio::test]
async fn unsafe_server_is_refused_with_its_warnings() {
    let server = Server::start();
    let error = strict(patient(server.url())).await.unwrap_err();
    assert!(matches!(&error, LockError::UnsafeServer { warnings, .. } if warnings.len() == 1));
    let words = error.to_string();
    assert!(words.contains("`appendonly` is `no`"), "{words}");
    assert!(words.contains("set `appendonly yes`"), "{words}");
    assert!(!error.is_unavailable() && !error.is_busy() && !error.is_lost());
}

#[tokio::test]
async fn unsafe_server_that_comes_late_is_used_once_it_is_corrected() {
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    proxy.cut();
    let config = patient(proxy.url()).refuse_unsafe_servers(true);
    let locks = LockManager::connect(config.start_disconnected(true)).await;
    let locks = locks.unwrap();
    assert!(locks.ping().await.unwrap_err().is_unavailable());
    proxy.heal();
    let refused = async {
        while locks.ping().await.unwrap_err().is_unavailable() {
            tokio::task::yield_now().await;
        }
    };
    soon(refused).await;
    let error = locks.lock("row").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::UnsafeServer { .. }), "{error}");
    assert_eq!(server.leftovers(), [""; 0]);

    server.query::<()>("CONFIG SET appendonly yes appendfsync always");
    until_pinged(&locks).await;
    use_once(&locks, "row").await;
    locks.shutdown().await;
}
