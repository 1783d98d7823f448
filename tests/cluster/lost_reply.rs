//! A request whose reply is lost may have been executed. The library never sends it twice.

use std::collections::HashMap;
use std::time::Duration;

use lock_runtime::{Config, LockManager};

use crate::support::cluster::Cluster;
use crate::support::proxy::Proxy;
use crate::support::server::Monitor;
use crate::support::time::{NOISE, eventually, millis, within};

/// A cluster whose nodes announce proxies as their addresses.
struct Site {
    proxies: Vec<Proxy>,
    cluster: Cluster,
}

impl Site {
    fn start() -> Self {
        // Replicas would use the proxies too.
        let cluster = Cluster::plan().without_replicas().start();
        let mut proxies = Vec::new();
        for n in 0..cluster.len() {
            let proxy = Proxy::to(cluster.node(n).port());
            let announce = format!("CONFIG SET cluster-announce-port {}", proxy.port());
            cluster.node(n).query::<()>(&announce);
            proxies.push(proxy);
        }
        let site = Self { proxies, cluster };
        eventually(
            Duration::from_secs(10),
            "all nodes know the proxies",
            || (0..site.cluster.len()).all(|n| site.is_known_to(n)),
        );
        site
    }

    fn is_known_to(&self, node: usize) -> bool {
        let nodes: String = self.cluster.node(node).query("CLUSTER NODES");
        let announced = |proxy: &Proxy| nodes.contains(&format!("127.0.0.1:{}@", proxy.port()));
        self.proxies.iter().all(announced)
    }

    /// Connects a manager whose requests are sent by the I/O thread, or by the test's own runtime.
    async fn connect(&self, from: From) -> LockManager {
        let seed = self.proxies[0].port();
        let locks = LockManager::connect(Config::new(format!("redis-cluster://127.0.0.1:{seed}")));
        let locks = locks.await.unwrap();
        // Loads the scripts and opens all connections.
        let times = match from {
            From::Io => 20,
            From::Home => 150,
        };
        for n in 0..times {
            let guard = locks.lock(format!("warm:{n}")).acquire().await.unwrap();
            guard.fencing_token().await.unwrap();
            guard.release().await.unwrap();
        }
        locks
    }

    fn master_of(&self, key: &str) -> usize {
        let slot = self.cluster.slot(&format!("lock:{key}"));
        self.cluster.master_of(slot).unwrap()
    }
}

#[derive(Clone, Copy, Debug)]
enum From {
    Io,
    Home,
}

/// Returns the number of acquisitions that arrived; asserts that none was sent twice.
fn acquisitions(monitor: Monitor, site: &Site, node: usize) -> usize {
    let mut seen = HashMap::new();
    for command in monitor.commands(site.cluster.node(node)) {
        if command.starts_with("\"SET\"") {
            *seen.entry(command).or_insert(0) += 1;
        }
    }
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    seen.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_with_lost_reply_is_never_sent_twice() {
    let site = Site::start();
    carries_out_nothing_twice(&site, From::Io).await;
    carries_out_nothing_twice(&site, From::Home).await;
}

async fn carries_out_nothing_twice(site: &Site, from: From) {
    let locks = site.connect(from).await;
    let node = site.master_of("row");

    let monitor = site.cluster.node(node).monitor();
    let lost = site.proxies[node].lost_replies();
    site.proxies[node].lose_next_reply();
    let guard = within(millis(3000), locks.lock("row").acquire())
        .await
        .unwrap();
    assert_eq!(site.proxies[node].lost_replies(), lost + 1);
    // The one whose reply was lost, and the one that acquired the lock.
    assert_eq!(acquisitions(monitor, site, node), 2);
    assert!(guard.is_valid() && site.cluster.exists("lock:row"));

    site.proxies[node].lose_next_reply();
    let released = within(millis(3000), guard.release()).await;
    assert!(released.is_ok() || released.unwrap_err().is_unavailable());
    let free = || !site.cluster.exists("lock:row");
    eventually(millis(1000), "the lock is free", free);

    // A request without a reply is given up as well, and its effect is undone.
    let monitor = site.cluster.node(node).monitor();
    site.proxies[node].hold_replies();
    let error = within(millis(500) + NOISE, locks.lock("row").try_acquire()).await;
    assert!(error.unwrap_err().is_unavailable());
    site.proxies[node].heal();
    eventually(millis(5000), "the lock is free", free);
    assert_eq!(acquisitions(monitor, site, node), 1);
    let guard = within(millis(5000), locks.lock("row").acquire())
        .await
        .unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}

/// Requests in flight when a connection breaks are not executed after its replacement is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_killed_with_their_connection() {
    let site = Site::start();
    stops_what_was_on_its_way(&site, From::Io).await;
    stops_what_was_on_its_way(&site, From::Home).await;
}

async fn stops_what_was_on_its_way(site: &Site, from: From) {
    let locks = site.connect(from).await;
    let node = site.master_of("row");
    // Only requests on this connection are held back.
    site.proxies[node].strand();
    let error = within(millis(500) + NOISE, locks.lock("row").try_acquire()).await;
    assert!(error.unwrap_err().is_unavailable());
    // The next connection is made, and the requests on the first one arrive.
    let guard = within(millis(5000), locks.lock("row").acquire())
        .await
        .unwrap();
    guard.release().await.unwrap();
    let (free, ended) = (
        || !site.cluster.exists("lock:row"),
        site.proxies[node].ended(),
    );
    eventually(millis(1000), "the lock is free", free);
    site.proxies[node].heal();
    eventually(millis(5000), "the old connection has ended", || {
        site.proxies[node].ended() > ended
    });
    assert!(free(), "the lock is still free");
    locks.shutdown().await;
}
