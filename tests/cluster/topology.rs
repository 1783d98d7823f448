//! The cluster that the tests start.

use std::time::Duration;

use crate::support::certificates::Certificates;
use crate::support::cluster::Cluster;
use crate::support::time::eventually;

#[test]
fn a_cluster_starts_moves_slots_and_fails_over() {
    let mut cluster = Cluster::start();
    let slot = cluster.slot("{a}");
    let from = cluster.master_of(slot).unwrap();
    for n in 0..50 {
        cluster
            .node(from)
            .query::<()>(&format!("SET {{a}}{n} x PX 60000"));
    }
    let to = (from + 1) % 3;
    cluster.move_slot(slot, from, to);
    eventually(Duration::from_secs(5), "the slot has moved", || {
        cluster.master_of(slot) == Some(to)
    });
    assert_eq!(cluster.node(to).query::<usize>("DBSIZE"), 50);
    cluster.node_mut(to).kill();
    eventually(Duration::from_secs(20), "the replica takes over", || {
        cluster.master_of(slot) == Some(to + 3) && cluster.is_ok()
    });
    cluster.node_mut(to).restart();
    for n in 0..50 {
        cluster.node(to + 3).query::<()>(&format!("DEL {{a}}{n}"));
    }
}

#[test]
fn a_cluster_may_have_a_password_and_speak_tls() {
    let plan = Cluster::plan()
        .password("open sesame")
        .tls(Certificates::new());
    let cluster = plan.start();
    cluster.move_slot(0, 0, 1);
    cluster.until_ok();
}
