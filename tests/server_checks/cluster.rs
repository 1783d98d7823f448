//! The nodes of a cluster.

use std::time::Duration;

use lock_runtime::{Config, WarningKind};

use super::{assert_reported, name, strict, warnings};
use lock_test_support::cluster::{Cluster, Plan};
use lock_test_support::time::{millis, patient};

const TTL: Duration = Duration::from_secs(10);

/// Returns a plan of a safe cluster, changed by these options.
fn plan(options: &[(&str, &str)]) -> Plan {
    let well = [
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("min-replicas-to-write", "1"),
        ("min-replicas-max-lag", "3"),
    ];
    let options = well.iter().chain(options);
    let plan = Cluster::plan().node_timeout(Duration::from_secs(15));
    options.fold(plan, |plan, (name, value)| plan.option(name, value))
}

fn config(cluster: &Cluster) -> Config {
    patient(cluster.url()).ttl(TTL)
}

#[tokio::test]
async fn all_cluster_nodes_are_checked() {
    let mut cluster = plan(&[]).start();
    assert_eq!(warnings(config(&cluster)).await, []);
    strict(config(&cluster)).await.unwrap();

    let set = |node: usize, setting: &str| {
        let node: &super::Server = cluster.node(node);
        node.query::<()>(&format!("CONFIG SET {setting}"));
    };
    set(0, "cluster-node-timeout 5000");
    set(1, "min-replicas-max-lag 10");
    set(2, "min-replicas-to-write 0");
    set(3, "appendonly no");
    let found = warnings(config(&cluster)).await;
    assert_eq!(found.len(), 4, "{found:#?}");
    for (node, danger, words) in [
        (
            0,
            WarningKind::EarlyFailover,
            "`cluster-node-timeout` is 5000",
        ),
        (1, WarningKind::SplitBrain, "`min-replicas-max-lag` is 10"),
        (2, WarningKind::SplitBrain, "`min-replicas-to-write` is 0"),
        (3, WarningKind::NotDurable, "`appendonly` is `no`"),
    ] {
        assert_reported(&found, &name(cluster.node(node)), &[(danger, words)]);
    }

    cluster.node_mut(5).pause();
    let found = warnings(config(&cluster).connect_timeout(millis(2000))).await;
    let unknown = (WarningKind::NotChecked, "can't be queried");
    assert_reported(&found, &name(cluster.node(5)), &[unknown]);
    cluster.node_mut(5).resume();
}
