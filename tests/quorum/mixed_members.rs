//! Members of every topology.

use std::time::Duration;

use lock_runtime::Config;

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, millis, patient, soon};

const TTL: Duration = millis(12_000);

/// A standalone server, a master that Sentinels name, and a cluster. Then the master dies and is replaced.
#[tokio::test]
async fn quorum_of_mixed_topologies_survives_failover() {
    let (server, mut sentinels) = (Server::start(), Sentinels::start());
    let cluster = Cluster::start();
    let config = || {
        patient(Config::quorum([
            server.url(),
            sentinels.url(),
            cluster.url(),
        ]))
        .ttl(TTL)
    };
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
        let all_have_it = async {
            while held_by(sentinels, key) != [true; 3] {
                tokio::time::sleep(millis(20)).await;
            }
        };
        soon(all_have_it).await;
    };
    let take_turns = async |key: &str, sentinels: &Sentinels| {
        let mut last = 0;
        let mut guard = both[0].lock(key).acquire().await.unwrap();
        for n in 1..5 {
            until_all_have_it(sentinels, key).await;
            let token = guard.fencing_token().await.unwrap();
            assert!(token > last);
            last = token;
            let lock = both[n % 2].lock(key).wait(PATIENCE);
            let next = tokio::spawn(lock.acquire());
            tokio::time::sleep(millis(30)).await;
            guard.release().await.unwrap();
            guard = soon(next).await.unwrap().unwrap();
        }
        // The lock is renewed on all members.
        until_renewed([&guard]).await;
        until_all_have_it(sentinels, key).await;
        guard.release().await.unwrap();
    };
    for key in ["door", "{door}:1"] {
        take_turns(key, &sentinels).await;
    }
    let gone = sentinels.kill_master();
    for n in 0..20 {
        use_once(&both[n % 2], "door").await;
    }
    sentinels.until_failed_over(gone);
    // The member votes again, and stores the lock.
    let guard = both[0].lock("door").acquire().await.unwrap();
    until_all_have_it(&sentinels, "door").await;
    guard.release().await.unwrap();
    for locks in &both {
        locks.shutdown().await;
    }
}
