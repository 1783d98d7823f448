//! Recalls, which holders find in the lines of their locks.

use super::rights::{ALL, READ};
use crate::engine::recall::Recall;
use crate::engine::request::{Attempt, Claim};
use crate::engine::tests::space::Space;
use crate::limit::Limit;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

fn recall_of(claim: &Claim) -> Recall {
    Recall {
        name: claim.name.clone(),
        token: Some(claim.token),
    }
}

/// The process may forget one, or not know its hold yet.
pub(super) async fn recall_is_repeated_while_another_process_waits(space: Space) {
    let (mut keeper, other) = (space.listening_peer().await, space.peer().await);
    let kept = keeper.acquire_lazily("row").await;
    other.wait("row").await;
    for _ in 0..3 {
        keeper.until_recalled(&recall_of(&kept)).await;
    }
}

/// Several claims of a session watch one line.
pub(super) async fn each_holder_sees_who_comes_after_its_lock_was_taken(space: Space) {
    let (mut keeper, other) = (space.listening_peer().await, space.peer().await);
    let taken = keeper.acquire_lazily("row").await;
    assert!(other.take_from(&taken).await.held);
    let kept = keeper.acquire_lazily("row").await;
    other.wait("row").await;
    keeper.until_recalled(&recall_of(&kept)).await;
}

pub(super) async fn claim_of_another_client_recalls_a_lock(space: Space) {
    let mut keeper = space.listening_peer().await;
    let kept = keeper.acquire_lazily("row").await;
    let mut client = space.servers::<ZooKeeper>().client();
    let path = space.path("row/_c_01234567-89ab-4def-8123-456789abcdef-lock-");
    let claim = client.create(&path, Kind::EphemeralNumbered).unwrap();
    keeper.until_recalled(&recall_of(&kept)).await;
    assert!(client.delete(&claim));
}

/// Its holder would not see who waits.
pub(super) async fn lock_whose_line_may_not_be_read_is_not_kept(space: Space) {
    let mut keeper = space.listening_peer().await;
    let mut client = space.servers::<ZooKeeper>().client();
    client.create_all(&space.path("row"));
    client.allow(&space.path("row"), ALL - READ).unwrap();
    let attempt = Attempt {
        is_recallable: true,
        // A try would look first.
        waits: true,
        ..keeper.attempt("row", Limit::EXCLUSIVE)
    };
    let kept = keeper.acquire(&attempt).await.expect("it is free");
    keeper.until_recalled(&recall_of(&kept)).await;
}
