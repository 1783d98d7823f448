//! Taking locks.

use super::{SHORT, black_hole, heal};
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::tests::peer::{soon, until};
use crate::engine::tests::space::Space;
use crate::limit::Limit;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

pub(super) async fn claims_of_other_clients_are_taken_by_their_names(space: Space) {
    let peer = space.peer().await;
    let mut client = space.servers::<ZooKeeper>().client();
    client.create_all(&space.path("row"));
    for stem in [
        "_c_01234567-89ab-4def-8123-456789abcdef-lock-",
        "thief-lock-",
        &"x".repeat(9000),
    ] {
        let path = space.path(&format!("row/{stem}"));
        let path = client.create(&path, Kind::PersistentNumbered).unwrap();
        let [holders, _] = peer.view("row").await;
        assert!(holders.len() == 1 && path.ends_with(&holders[0]));
        assert!(!peer.take("row", "thief").await.held);
        assert!(peer.take("row", &holders[0]).await.held);
        assert!(!client.exists(&path));
    }
    // A child without a number is no claim.
    let config = space.path("row/config");
    client.create(&config, Kind::Persistent).unwrap();
    assert!(!peer.take("row", "config").await.held);
    assert!(client.delete(&config));
    let never = peer.take("never", "x").await;
    assert!(!never.held && never.fencing_token > 0);
    assert!(!client.exists(&space.path("never")));
}

/// The session ends that the claim was in, and the claim does not come back in the next one: its caller makes
/// another.
pub(super) async fn taken_claim_does_not_enter_in_the_next_session(space: Space) {
    let (network, one) = space.distant_peer_with_short_sessions().await;
    let other = space.peer().await;
    let held = other.hold("row").await;
    let claim = || Claim {
        ttl: SHORT,
        ..one.claim("row", Limit::EXCLUSIVE)
    };
    let waits = claim();
    let reply = one.enter(&waits).await;
    assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
    black_hole(&network);
    other.take_from(&waits).await;
    let ends = async || space.children("::sessions").len() == 1;
    until("its session ends", ends).await;
    heal(&network);
    // The session finds that it has ended.
    let reply = loop {
        if let Ok(reply) = one.engine.enqueue(&waits, None, soon()).await {
            break reply;
        }
    };
    assert!(matches!(reply, EnqueueReply::Stale), "{reply:?}");
    let [holders, waiters] = other.view("row").await;
    assert_eq!((holders.len(), waiters.len()), (1, 0));
    let next = claim();
    let reply = one.enter(&next).await;
    assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
    one.cancel(&next).await;
    assert!(other.release(&held).await);
}
