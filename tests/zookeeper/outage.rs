//! Servers that fail, networks that break, and replies that are lost.

use std::net::TcpListener;
use std::time::Duration;

use lock_runtime::{Config, LockManager};

use lock_test_support::manager::{connected, refusal, use_once};
use lock_test_support::proxy::Proxy;
use lock_test_support::server::free_port;
use lock_test_support::servers::Servers;
use lock_test_support::time::{PATIENCE, eventually, millis, soon};
use lock_test_support::zookeeper::ZooKeeper;

const SECRET: &str = "correct-horse";

fn config(url: &str) -> Config {
    Config::from(url)
        .command_timeout(millis(1000))
        .connect_timeout(PATIENCE)
        .wait(PATIENCE)
}

async fn behind_a_proxy() -> (ZooKeeper, Proxy, LockManager) {
    let zookeeper = ZooKeeper::start();
    let proxy = zookeeper.proxy(0);
    let url = format!("zookeeper://127.0.0.1:{}", proxy.port());
    let locks = connected(config(&url)).await;
    (zookeeper, proxy, locks)
}

/// Its node is found again by its identity.
#[tokio::test]
async fn unanswered_claim_leaves_no_node() {
    let (zookeeper, proxy, locks) = behind_a_proxy().await;
    for round in 0..6 {
        let door = format!("door:{round}");
        let held = locks.lock(&*door).acquire().await.unwrap();
        let waiter = tokio::spawn(locks.lock(&*door).acquire());
        tokio::time::sleep(millis(round * 3)).await;
        proxy.lose_next_reply();
        held.release().await.ok();
        let guard = soon(waiter).await.unwrap().unwrap();
        assert!(guard.is_valid());
        guard.release().await.ok();
        eventually("nothing is left", || zookeeper.claims().is_empty());
    }
    locks.shutdown().await;
}

/// A server that has lost its leader answers reads, and the pings of a session, for a while. They must not
/// prolong a lease, nor be taken for a sign that locks can be acquired.
#[tokio::test]
async fn server_without_leader_proves_no_lease() {
    // So that the follower does not notice within the test.
    let mut zookeeper = ZooKeeper::with(3, "syncLimit=100");
    let leader = zookeeper.leader();
    let follower = (leader + 1) % 3;
    let third = (leader + 2) % 3;
    let locks = connected(config(&zookeeper.url_of(follower))).await;
    let guard = locks.lock("row").ttl(millis(6000)).acquire().await.unwrap();
    zookeeper.pause(leader);
    zookeeper.pause(third);
    soon(guard.lost()).await;
    for _ in 0..2 {
        let error = soon(locks.ping()).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    zookeeper.resume(leader);
    zookeeper.resume(third);
    drop(guard);
    soon(use_once(&locks, "row")).await;
    locks.shutdown().await;
}

/// Locks are kept, and served again soon after another leader was elected.
#[tokio::test]
async fn frozen_and_killed_leaders_are_replaced() {
    let mut zookeeper = ZooKeeper::with(3, "");
    let locks = connected(config(&zookeeper.url())).await;
    for kills in [false, true] {
        let lock = locks.lock("row").ttl(Duration::from_secs(40));
        let guard = lock.acquire().await.unwrap();
        let leader = zookeeper.leader();
        match kills {
            true => zookeeper.kill(leader),
            false => zookeeper.pause(leader),
        }
        soon(use_once(&locks, "other")).await;
        assert!(guard.is_valid());
        // Its ttl has a session of its own, which may still look for a server: the next round waits for the
        // release.
        drop(guard);
        match kills {
            true => zookeeper.restart(leader),
            false => zookeeper.resume(leader),
        }
        zookeeper.until_ready();
    }
    locks.shutdown().await;
}

/// The error is about the whole time, not about the last try.
#[tokio::test]
async fn each_unreachable_server_is_named_with_its_cause() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (closed, silent) = (free_port(), silent.local_addr().unwrap().port());
    let url = format!("zookeeper://127.0.0.1:{closed},127.0.0.1:{silent}");
    let config = Config::from(url).connect_timeout(millis(1500));
    let (error, text) = refusal(config, SECRET).await;
    assert!(error.is_unavailable(), "{error}");
    let (before, second) = text.split_once("; `").unwrap_or_default();
    let (_, first) = before
        .rsplit_once("no server could be used within ")
        .unwrap_or_default();
    let refused = format!("`127.0.0.1:{closed}`: Connection refused");
    assert!(
        first.contains(&refused) && first.contains("tries)"),
        "{text}"
    );
    let silent = format!("127.0.0.1:{silent}`: no reply within ");
    assert!(second.starts_with(&silent), "{text}");
    assert!(
        second.contains("tries)") || second.contains("(1 try)"),
        "{text}"
    );
}

#[tokio::test]
async fn server_without_majority_is_named() {
    let mut zookeeper = ZooKeeper::with(3, "");
    zookeeper.kill(0);
    zookeeper.kill(1);
    let (error, text) = refusal(zookeeper.url_of(2), SECRET).await;
    assert!(
        error.is_unavailable() && text.contains("majority"),
        "{text}"
    );
}
