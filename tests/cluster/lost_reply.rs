//! A request whose reply is lost may have been executed. The library never sends it twice.

use std::collections::HashMap;

use lock_runtime::{Config, LockManager};

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::Monitor;
use lock_test_support::time::{eventually, millis, soon};

/// A cluster whose nodes announce proxies as their addresses.
struct Fixture {
    proxies: Vec<Proxy>,
    cluster: Cluster,
}

impl Fixture {
    fn start() -> Self {
        // Replicas would use the proxies too.
        let cluster = Cluster::plan().without_replicas().start();
        let mut proxies = Vec::new();
        for n in 0..cluster.node_count() {
            let proxy = Proxy::to(cluster.node(n).port());
            let announce = format!("CONFIG SET cluster-announce-port {}", proxy.port());
            cluster.node(n).query::<()>(&announce);
            proxies.push(proxy);
        }
        let fixture = Self { proxies, cluster };
        eventually("all nodes know the proxies", || {
            (0..fixture.cluster.node_count()).all(|n| fixture.is_known_to(n))
        });
        fixture
    }

    fn is_known_to(&self, node: usize) -> bool {
        let nodes: String = self.cluster.node(node).query("CLUSTER NODES");
        let announced = |proxy: &Proxy| nodes.contains(&format!("127.0.0.1:{}@", proxy.port()));
        self.proxies.iter().all(announced)
    }

    /// Connects a manager whose requests are sent by the I/O thread, or by the test's own runtime.
    async fn connect(&self, from: From) -> LockManager {
        let seed = self.proxies[0].port();
        let config = Config::new(format!("redis-cluster://127.0.0.1:{seed}"));
        let locks = connected(config.command_timeout(millis(2000))).await;
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
fn acquisitions(monitor: Monitor, fixture: &Fixture, node: usize) -> usize {
    let mut seen = HashMap::new();
    for command in monitor.commands(fixture.cluster.node(node)) {
        if command.starts_with("\"SET\"") {
            *seen.entry(command).or_insert(0) += 1;
        }
    }
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    seen.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_with_lost_reply_is_never_sent_twice() {
    let fixture = Fixture::start();
    for from in [From::Io, From::Home] {
        carries_out_nothing_twice(&fixture, from).await;
        stops_what_was_on_its_way(&fixture, from).await;
    }
}

async fn carries_out_nothing_twice(fixture: &Fixture, from: From) {
    let locks = fixture.connect(from).await;
    let node = fixture.master_of("row");

    let monitor = fixture.cluster.node(node).monitor();
    let lost = fixture.proxies[node].lost_replies();
    fixture.proxies[node].lose_next_reply();
    let guard = soon(locks.lock("row").acquire()).await.unwrap();
    assert_eq!(fixture.proxies[node].lost_replies(), lost + 1);
    // The one whose reply was lost, and the one that acquired the lock.
    assert_eq!(acquisitions(monitor, fixture, node), 2);
    assert!(guard.is_valid() && fixture.cluster.exists("lock:row"));

    fixture.proxies[node].lose_next_reply();
    let released = soon(guard.release()).await;
    assert!(released.is_ok() || released.unwrap_err().is_unavailable());
    let free = || !fixture.cluster.exists("lock:row");
    eventually("the lock is free", free);

    // The connection that lost the reply is replaced before replies are held.
    let guard = soon(locks.lock("row").acquire()).await.unwrap();
    guard.release().await.unwrap();

    // A request without a reply is given up as well, and its effect is undone.
    let monitor = fixture.cluster.node(node).monitor();
    fixture.proxies[node].hold_replies();
    let error = soon(locks.lock("row").try_acquire()).await;
    assert!(error.unwrap_err().is_unavailable());
    fixture.proxies[node].heal();
    eventually("the lock is free", free);
    assert_eq!(acquisitions(monitor, fixture, node), 1);
    let guard = soon(locks.lock("row").acquire()).await.unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}

/// Requests in flight when a connection breaks are not executed after its replacement is made.
async fn stops_what_was_on_its_way(fixture: &Fixture, from: From) {
    let locks = fixture.connect(from).await;
    let node = fixture.master_of("row");
    // Only requests on this connection are held back.
    fixture.proxies[node].strand();
    let error = soon(locks.lock("row").try_acquire()).await;
    assert!(error.unwrap_err().is_unavailable());
    // The next connection is made, and the requests on the first one arrive.
    let guard = soon(locks.lock("row").acquire()).await.unwrap();
    guard.release().await.unwrap();
    let (free, ended) = (
        || !fixture.cluster.exists("lock:row"),
        fixture.proxies[node].ended(),
    );
    eventually("the lock is free", free);
    fixture.proxies[node].heal();
    eventually("the old connection has ended", || {
        fixture.proxies[node].ended() > ended
    });
    assert!(free(), "the lock is still free");
    locks.shutdown().await;
}
