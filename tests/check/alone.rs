//! One server.

use lock_runtime::{Config, LockError, LockManager, WarningKind};

use super::{assert_told, name, server, strict, warnings};
use crate::support::manager::connected;
use crate::support::server::Server;
use crate::support::time::{NOISE, millis, patient, within};

#[tokio::test]
async fn a_server_that_keeps_what_it_acknowledges_is_safe() {
    let server = server(&[]);
    assert_told(&warnings(patient(server.url())).await, &name(&server), &[]);
    strict(patient(server.url())).await.unwrap();
    let socket = format!("redis+unix://{}", server.socket().display());
    assert!(warnings(socket).await.is_empty());
    assert!(warnings("memory://").await.is_empty());
    strict("memory://").await.unwrap();
}

#[tokio::test]
async fn one_that_forgets() {
    let nothing = Server::start();
    let told = [(WarningKind::NotDurable, "`appendonly` is `no`")];
    assert_told(
        &warnings(patient(nothing.url())).await,
        &name(&nothing),
        &told,
    );

    let late = server(&["--appendfsync", "everysec"]);
    let told = [(WarningKind::NotDurable, "`appendfsync` is `everysec`")];
    assert_told(&warnings(patient(late.url())).await, &name(&late), &told);
}

#[tokio::test]
async fn one_that_evicts() {
    let full = server(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    let told = [(
        WarningKind::Eviction,
        "`maxmemory-policy` is `volatile-ttl`",
    )];
    assert_told(&warnings(patient(full.url())).await, &name(&full), &told);

    let boundless = server(&["--maxmemory-policy", "allkeys-lru"]);
    assert!(warnings(patient(boundless.url())).await.is_empty());
}

#[tokio::test]
async fn a_replica() {
    let master = server(&[]);
    let port = master.port().to_string();
    let replica = server(&["--replicaof", &format!("127.0.0.1 {port}")]);
    let found = format!("a replica of `127.0.0.1:{port}`");
    let told = [(WarningKind::ConnectedToReplica, &*found)];
    assert_told(
        &warnings(patient(replica.url())).await,
        &name(&replica),
        &told,
    );
}

#[tokio::test]
async fn a_node_of_a_cluster() {
    let node = server(&["--cluster-enabled", "yes"]);
    let error = LockManager::connect(node.url()).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    let words = error.to_string();
    assert!(words.contains("redis-cluster://"), "{words}");
}

/// A user who may do no more than locking needs, and one who may be told a little.
#[tokio::test]
async fn one_that_must_not_be_asked() {
    let server = server(&[]);
    let may = "on >s3cret ~lock:* &lock:* -@all +@connection +set +get +del +pexpire +pttl +time \
               +exists +eval +evalsha +script|load +zadd +zcard +zpopmin +zrange +zrank +zrem +hset \
               +hget +hdel +hexists +publish +subscribe +pubsub|numsub";
    server.query::<()>(&format!("ACL SETUSER clerk {may}"));
    let config = || Config::new(server.url()).credentials("clerk", "s3cret");
    let told = [(WarningKind::NotChecked, "+config|get")];
    assert_told(&warnings(config()).await, &name(&server), &told);

    server.query::<()>("ACL SETUSER clerk +info");
    let told = [(WarningKind::NotChecked, "`appendfsync` (`CONFIG GET`")];
    assert_told(&warnings(config()).await, &name(&server), &told);

    server.query::<()>("ACL SETUSER clerk +config|get");
    strict(config()).await.unwrap();
}

#[tokio::test]
async fn one_that_is_away_is_asked_in_vain_for_no_longer_than_connecting_may_take() {
    let mut server = server(&[]);
    let config = Config::new(server.url()).connect_timeout(millis(500));
    let locks = connected(config).await;
    server.pause();
    let warnings = within(millis(500) + NOISE, locks.check_servers()).await;
    let told = [(WarningKind::NotChecked, "can't be queried")];
    assert_told(&warnings, &name(&server), &told);
    server.resume();
}

#[tokio::test]
async fn strict_refuses_it_and_says_why() {
    let server = Server::start();
    let error = strict(patient(server.url())).await.unwrap_err();
    assert!(matches!(&error, LockError::UnsafeServer { warnings, .. } if warnings.len() == 1));
    let words = error.to_string();
    assert!(words.contains("`appendonly` is `no`"), "{words}");
    assert!(words.contains("set `appendonly yes`"), "{words}");
    assert!(!error.is_unavailable() && !error.is_busy() && !error.is_lost());
}
