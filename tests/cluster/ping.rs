//! Pings of a cluster, of which every master must reply.

use lock_runtime::Config;

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::{connected, silent, until_pinged};
use lock_test_support::time::{millis, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_master_must_reply_to_a_ping() {
    let mut cluster = Cluster::start();
    let config = || silent(Config::new(cluster.url()).command_timeout(millis(1000)));
    let locks = connected(config()).await;
    // All locks of this one are at the first master.
    let mut prefixes = (0..).map(|n| format!("{{{n}}}lock:"));
    let prefix = prefixes.find(|prefix| cluster.slot(prefix) < Cluster::first_slot(1));
    let at_first = connected(config().prefix(prefix.unwrap())).await;
    // Each of the masters gets a write whose key is in one of its slots.
    let sets = || {
        let masters = cluster.nodes()[..3].iter();
        masters.map(|node| node.calls(&["set"])).collect::<Vec<_>>()
    };
    let before = sets();
    locks.ping().await.unwrap();
    let after: Vec<_> = before.iter().map(|calls| calls + 1).collect();
    assert_eq!(sets(), after);
    for node in cluster.nodes() {
        assert_eq!(node.query::<usize>("DBSIZE"), 0);
    }
    for master in 1..3 {
        match master {
            1 => cluster.node_mut(master).pause(),
            _ => cluster.node_mut(master).kill(),
        }
        // The first may discover the outage, the second knows of it.
        for _ in 0..2 {
            assert!(soon(locks.ping()).await.unwrap_err().is_unavailable());
        }
        at_first.ping().await.unwrap();
        cluster.replace(master);
        until_pinged(&locks).await;
    }
    cluster.node_mut(1).resume();
}
