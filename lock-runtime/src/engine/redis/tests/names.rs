//! Which locks there are.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::redis::tests::{Process, claim, soon};
use lock_test_support::cluster::Cluster;
use lock_test_support::permissions;
use lock_test_support::server::Server;
use std::sync::Arc;

async fn names(by: &Process, prefix: &str, most: usize) -> Vec<Arc<str>> {
    by.engine.names(prefix, most, soon()).await.unwrap()
}

async fn all_locks_are_found(url: String) {
    let process = Process::connect(url).await;
    assert!(!process.engine.has_index());
    let held: Vec<_> = (0..300).map(|n| claim(&format!("order:{n}"))).collect();
    for claim in &held {
        process.hold(claim).await;
    }
    let mut waits = vec![claim("{a}b"), claim("or:queue")];
    for waiter in &waits {
        process.hold(&claim(&waiter.name["lock:".len()..])).await;
        process.wait(waiter).await;
    }
    process
        .engine
        .report(crate::process::ProcessId(7), "1".into(), soon())
        .await
        .unwrap();
    process.number(&held[0]).await.unwrap();

    let mut expected: Vec<_> = held.iter().map(|claim| claim.name.clone()).collect();
    expected.sort();
    assert_eq!(names(&process, "lock:order:", 1000).await, expected);
    expected.extend(waits.iter().map(|claim| claim.name.clone()));
    expected.sort();
    assert_eq!(names(&process, "lock:", 1000).await, expected);
    let some = names(&process, "lock:order:", 7).await;
    assert_eq!(some.len(), 7);
    assert!(some.iter().all(|name| expected.contains(name)));
    assert!(names(&process, "lock:shop:", 7).await.is_empty());

    for claim in &held {
        assert!(process.release(claim).await);
    }
    // The holder is gone, and the queue still there.
    for waiter in waits.drain(..) {
        let view = process.engine.view(&waiter.name, 1, soon()).await.unwrap();
        process
            .engine
            .take(&waiter.name, &view.holders[0].token, 0, soon())
            .await
            .unwrap();
        process.engine.cancel(&waiter, false, soon()).await.unwrap();
    }
    assert!(names(&process, "lock:", 1000).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_locks_of_a_server_are_found() {
    let server = Server::start();
    all_locks_are_found(server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_locks_of_a_cluster_are_found() {
    let cluster = Cluster::plan().without_replicas().start();
    all_locks_are_found(cluster.url()).await;
}

/// A lock without a holder, for which others wait, is found by its queue; a key of a foreign type is a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_found_among_many_other_keys() {
    let server = Server::start();
    let process = Process::connect(server.url()).await;
    let (holder, waiter) = (claim("door"), claim("door"));
    process.hold(&holder).await;
    process.wait(&waiter).await;
    server.query::<()>("DEL lock:door");
    let others = "for n = 1, 5000 do redis.call('SET', 'other:' .. n, '') end";
    server.ask::<()>(&["EVAL", others, "0"]).unwrap();
    server.query::<()>("HSET lock:hash a 1");
    server.ask::<()>(&["SET", "lock:two\nlines", "a"]).unwrap();
    let expected = ["lock:door", "lock:hash", "lock:two\nlines"].map(Arc::from);
    assert_eq!(names(&process, "lock:", 100).await, expected);
    server.query::<()>("FLUSHALL");
    assert!(names(&process, "lock:", 100).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_with_wildcards_finds_only_its_own_locks() {
    let server = Server::start();
    let prefix = r"l[o]*?\:";
    let process = Process::connect(Config::new(server.url()).prefix(prefix)).await;
    let own = format!("{prefix}door");
    for key in [&*own, "lo:door", "loxx:door"] {
        server.ask::<()>(&["SET", key, "a"]).unwrap();
    }
    assert_eq!(names(&process, prefix, 100).await, [Arc::from(own)]);
    server.query::<()>("FLUSHALL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listing_names_its_missing_right() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    let user = format!("ACL SETUSER clerk reset on >s3cret ~lock:* &lock:* {commands}");
    server.query::<()>(&user);
    let config = Config::new(server.url()).credentials("clerk", "s3cret");
    let process = Process::connect(config).await;
    let error = process
        .engine
        .names("lock:", 100, soon())
        .await
        .unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
    assert!(error.to_string().contains("scan"), "{error}");
}
