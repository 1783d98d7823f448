//! The names of locks in use.

use crate::engine::tests::space::Space;
use lock_test_support::etcd::Etcd;

pub(super) async fn keys_without_a_claim_are_no_locks(space: Space) {
    let (etcd, operator) = (space.servers::<Etcd>(), space.peer().await);
    let held = operator.hold("n").await;
    for nonsense in ["no-lock", "%41/1"] {
        etcd.ctl(&["put", &space.name(nonsense), ""]);
    }
    assert_eq!(operator.keys("", 99).await, ["n"]);
    assert!(operator.keys(":", 99).await.is_empty());
    for nonsense in ["no-lock", "%41/1"] {
        etcd.ctl(&["del", &space.name(nonsense)]);
    }
    assert!(operator.release(&held).await);
}
