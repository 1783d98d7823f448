//! The sessions on which locks depend.

use std::time::Duration;

use lock_runtime::LockError;

use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::time::{eventually, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Client;

#[tokio::test]
async fn similar_ttls_share_a_session() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let mut guards = Vec::new();
    for n in 0..50 {
        let lock = locks.lock(n.to_string()).ttl(millis(29_000 + n * 20));
        guards.push(lock.acquire().await.unwrap());
    }
    let sessions = zookeeper.client().children("/lock/::sessions");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    drop(guards);
    locks.shutdown().await;
}

#[test]
fn stopped_holder_finds_that_it_has_lost_the_lock() {
    if let Some(arguments) = arguments() {
        return block_on(async {
            let locks = connected(patient(&*arguments[0])).await;
            let guard = locks.lock("row").ttl(millis(1500)).acquire().await.unwrap();
            report_event("held");
            next_order();
            let lost = !guard.is_valid() && guard.fencing_token().await.is_err();
            report_event(if lost { "lost" } else { "valid" });
            next_order();
        });
    }
    block_on(async {
        let zookeeper = ZooKeeper::start();
        let mut holder = Worker::start(
            stopped_holder_finds_that_it_has_lost_the_lock,
            &[&zookeeper.url()],
        );
        holder.expect("held");
        holder.pause();
        let locks = connected(patient(zookeeper.url())).await;
        let guard = locks.lock("row").acquire().await.unwrap();
        holder.resume();
        holder.order("look");
        holder.expect("lost");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        locks.shutdown().await;
        holder.kill();
    });
}

/// An operator, or another client with the same access, deletes the session's nodes.
#[tokio::test]
async fn lost_nodes_are_created_again() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let mut client: Client = zookeeper.client();
    for path in client.all_below("/lock").into_iter().rev() {
        client.delete(&path);
    }
    client.delete("/lock");
    assert!(!client.exists("/lock"));
    let ttl = millis(6000);
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    until_renewed([&guard]).await;
    let held = zookeeper.claims();
    guard.release().await.unwrap();
    eventually("it is released", || zookeeper.claims().is_empty());
    assert_eq!(held.len(), 1);
    locks.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_sessions() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    use_once(&locks, "row").await;
    assert_eq!(zookeeper.client().children("/lock/::sessions").len(), 1);
    locks.shutdown().await;
    assert!(zookeeper.client().children("/lock/::sessions").is_empty());
}

/// A manager that is dropped without shutdown ends its sessions, too.
#[tokio::test]
async fn dropped_manager_ends_its_sessions() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    drop(locks);
    assert!(guard.is_valid());
    drop(guard);
    eventually("the sessions end", || {
        zookeeper.client().children("/lock/::sessions").is_empty()
    });
}

/// The ensemble has ended the session of a process that still waits: it enters the line again.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_outlives_its_session() {
    let zookeeper = ZooKeeper::start();
    let proxy = zookeeper.proxy(0);
    let url = format!("zookeeper://127.0.0.1:{}", proxy.port());
    let (one, other) = (
        connected(patient(url).ttl(millis(4000))).await,
        connected(patient(zookeeper.url())).await,
    );
    let guard = other.lock("row").acquire().await.unwrap();
    let lost = one.lock("lost").acquire().await.unwrap();
    let waiter = tokio::spawn(one.lock("row").acquire());
    eventually("it waits", || zookeeper.claims().len() == 3);
    proxy.black_hole();
    eventually("its session ends", || zookeeper.claims().len() == 1);
    proxy.heal();
    assert!(!lost.is_valid());
    eventually("it waits again", || zookeeper.claims().len() == 2);
    assert!(guard.is_valid() && !waiter.is_finished());
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    drop(lost);
    let again = soon(one.lock("lost").acquire()).await.unwrap();
    again.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn ttl_longer_than_any_session_is_refused() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let lock = locks.lock("row").ttl(Duration::from_secs(61));
    let error = lock.acquire().await.unwrap_err();
    assert!(
        matches!(error, LockError::InvalidOption { option: "ttl", .. }),
        "{error}"
    );
    locks.shutdown().await;
}
