//! Names of locks.

use crate::engine::tests::peer::Peer;
use crate::engine::tests::space::Space;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

/// And none is changed or made.
pub(super) async fn nodes_without_a_claim_are_no_locks(space: Space) {
    let [one, operator] = space.peers().await;
    one.report("hello").await;
    let held = one.hold("order").await;
    let mut client = space.servers::<ZooKeeper>().client();
    for node in ["free", "%zz", "%zz/x"] {
        client.create(&space.path(node), Kind::Persistent).unwrap();
    }
    let before = client.all_below(&space.path(""));
    assert_eq!(operator.keys("", 9).await, ["order"]);
    assert_eq!(operator.keys("order", 0).await, [""; 0]);
    assert_eq!(client.all_below(&space.path("")), before);
    assert!(one.release(&held).await);
}

pub(super) async fn each_prefix_has_its_own_directory(space: Space) {
    for prefix in ["a/b:c", ""] {
        let peer = Peer::connect(space.config().prefix(prefix)).await;
        let held = peer.hold("mine").await;
        assert_eq!(peer.keys("mine", 9).await, ["mine"]);
        assert!(peer.release(&held).await);
    }
}

/// More than a window, most of which are free.
pub(super) async fn names_are_found_among_many_that_are_free(space: Space) {
    let peer = space.peer().await;
    let mut client = space.servers::<ZooKeeper>().client();
    client.create_all(&space.path(""));
    for n in 0..600 {
        let path = space.path(&format!("{n:03}"));
        client.create(&path, Kind::Persistent).unwrap();
    }
    let mut held = Vec::new();
    for key in ["007", "300", "599"] {
        held.push(peer.hold(key).await);
    }
    assert_eq!(peer.keys("", 9).await, ["007", "300", "599"]);
    assert_eq!(peer.keys("", 2).await, ["007", "300"]);
    for claim in &held {
        assert!(peer.release(claim).await);
    }
}
