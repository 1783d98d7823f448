//! Members of every topology.

use lock_runtime::Config;

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::connected;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::{millis, soon};
use tokio::time::Instant;

/// A standalone server, a master that Sentinels name, and a cluster. Then the master dies and is replaced.
#[tokio::test]
async fn quorum_of_mixed_topologies_survives_failover() {
    let (server, mut sentinels) = (Server::start(), Sentinels::start());
    let cluster = Cluster::start();
    let config = || Config::quorum([server.url(), sentinels.url(), cluster.url()]);
    let both = [connected(config()).await, connected(config()).await];
    let held_by = |sentinels: &Sentinels, key: &str| {
        let name = format!("lock:{key}");
        let master = sentinels.server(sentinels.master());
        [
            server.exists(&name),
            master.exists(&name),
            cluster.exists(&name),
        ]
    };
    let until_all_have_it = async |sentinels: &Sentinels, key: &str| {
        let start = Instant::now();
        while held_by(sentinels, key) != [true; 3] {
            assert!(
                start.elapsed() < millis(5000),
                "{:?}",
                held_by(sentinels, key)
            );
            tokio::time::sleep(millis(20)).await;
        }
    };
    let take_turns = async |key: &str, sentinels: &Sentinels| {
        let mut last = 0;
        let mut guard = both[0].lock(key).ttl(millis(2000)).acquire().await.unwrap();
        for n in 1..8 {
            until_all_have_it(sentinels, key).await;
            let token = guard.fencing_token().await.unwrap();
            assert!(token > last);
            last = token;
            let lock = both[n % 2].lock(key).ttl(millis(2000)).wait(millis(20_000));
            let next = tokio::spawn(lock.acquire());
            tokio::time::sleep(millis(30)).await;
            guard.release().await.unwrap();
            guard = soon(next).await.unwrap().unwrap();
        }
        // The lock is renewed on all members.
        tokio::time::sleep(millis(2500)).await;
        assert!(guard.is_valid());
        until_all_have_it(sentinels, key).await;
        guard.release().await.unwrap();
    };
    for key in ["door", "{door}:1"] {
        take_turns(key, &sentinels).await;
    }
    let gone = sentinels.kill_master();
    for n in 0..20 {
        let lock = both[n % 2].lock("door").wait(millis(500)).acquire();
        lock.await.unwrap().release().await.unwrap();
    }
    sentinels.until_failed_over(gone);
    // The member votes again, and stores the lock.
    let guard = both[0]
        .lock("door")
        .ttl(millis(3000))
        .acquire()
        .await
        .unwrap();
    until_all_have_it(&sentinels, "door").await;
    guard.release().await.unwrap();
    for locks in &both {
        locks.shutdown().await;
    }
}
