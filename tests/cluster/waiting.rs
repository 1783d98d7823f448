//! Waiters receive grants, whichever node stores the lock and whichever node they are subscribed to.

use std::time::Duration;

use lock_runtime::LockManager;

use lock_test_support::cluster::Cluster;
use lock_test_support::manager::connected;
use lock_test_support::time::{Timed, comes_true_within, eventually, millis, patient, soon};

const LONG: Duration = Duration::from_secs(30);

/// Returns the nodes that have subscribers.
fn listened_to(cluster: &Cluster) -> Vec<usize> {
    let is_heard = |node: &usize| {
        let channels = "PUBSUB CHANNELS lock:::grants:*";
        let runs = cluster.node(*node).runs();
        runs && !cluster
            .node(*node)
            .query::<Vec<String>>(channels)
            .is_empty()
    };
    (0..cluster.node_count()).filter(is_heard).collect()
}

struct Two {
    holders: LockManager,
    waiters: LockManager,
}

impl Two {
    async fn on(cluster: &Cluster) -> Self {
        Self {
            holders: connected(patient(cluster.url())).await,
            waiters: connected(patient(cluster.url())).await,
        }
    }

    /// Passes a lock to a waiter of the other process. Returns how often the waiter polled in the meantime.
    async fn pass_on(&self, cluster: &Cluster, key: &str) -> usize {
        let held = self.holders.lock(key).acquire().await.unwrap();
        let lock = self.waiters.lock(key).wait(LONG);
        let waiter = tokio::spawn(lock.acquire());
        cluster.until_waiting(key, 1);
        // By then the waiter polls less often.
        tokio::time::sleep(millis(250)).await;
        let master = cluster.master_of(cluster.slot(&format!("lock:{key}")));
        let node = cluster.node(master.unwrap());
        let monitor = node.monitor();
        held.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        // Only a request of a waiter names its channel.
        let commands = monitor.commands(node).into_iter();
        let polls = commands.filter(|it| it.starts_with(r#""EVAL"#) && it.contains(":::grants:"));
        guard.release().await.unwrap();
        polls.count()
    }

    /// Asserts that a grant arrives without a poll, except for one that comes by chance.
    async fn is_pushed(&self, cluster: &Cluster, key: &str) {
        for _ in 0..5 {
            if self.pass_on(cluster, key).await == 0 {
                return;
            }
        }
        panic!("the waiter has found each grant by polling");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_arrives_from_every_node_over_one_subscription() {
    let _timed = Timed::start();
    // Its own: on a shared one, the processes of other cases subscribe, too.
    let cluster = Cluster::start();
    let two = Two::on(&cluster).await;
    for node in 0..3 {
        two.is_pushed(&cluster, &cluster.keys_at(node, 1)[0]).await;
    }
    assert_eq!(
        listened_to(&cluster).len(),
        1,
        "one subscription serves all nodes"
    );
}

/// A node with subscribers is killed, and another one is paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscription_moves_from_dead_or_paused_node() {
    let _timed = Timed::start();
    // Keeps the locks on their nodes.
    let plan = Cluster::plan().option("cluster-require-full-coverage", "no");
    let mut cluster = plan.start();
    let mut all = Vec::new();
    // Adds managers until one subscribes to a replica.
    let replica = loop {
        let two = Two::on(&cluster).await;
        let before = listened_to(&cluster);
        two.pass_on(&cluster, &cluster.keys_at(0, 1)[0]).await;
        all.push(two);
        let new = |node: &usize| *node >= 3 && !before.contains(node);
        if let Some(replica) = listened_to(&cluster).into_iter().find(new) {
            break replica;
        }
        assert!(all.len() < 50, "no manager has subscribed to a replica");
    };
    let two = all.pop().unwrap();
    drop(all);
    cluster.node_mut(replica).kill();
    let has_moved = |cluster: &Cluster| listened_to(cluster).len() == 1;
    eventually("one running node has subscribers", || has_moved(&cluster));
    two.is_pushed(&cluster, &cluster.keys_at(1, 1)[0]).await;

    let frozen = *listened_to(&cluster).first().unwrap();
    cluster.node_mut(frozen).pause();
    let key = cluster.keys_at((frozen + 1) % 3, 1).remove(0);
    // A poll that comes soon after the lost message does not reveal that it was lost.
    for attempt in 1.. {
        two.pass_on(&cluster, &key).await;
        if comes_true_within(millis(1000), || has_moved(&cluster)) {
            break;
        }
        assert!(attempt < 40, "no running node has subscribers");
    }
    two.is_pushed(&cluster, &key).await;
    cluster.node_mut(frozen).resume();
    cluster.until_ok();
}
