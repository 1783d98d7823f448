//! Taking locks.

use super::{SHORT, black_hole, heal};
use crate::engine::request::{Attempt, Claim, EnqueueReply};
use crate::engine::tests::peer::{soon, until};
use crate::engine::tests::space::Space;
use crate::engine::token::Token;
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

/// The session ends that the claim was in, and the claim does not come back in the next one: its caller makes another.
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

/// A claim may wait with the node that an earlier try has made. Its holder has the token that others see, also if a reply
/// is lost.
pub(super) async fn holder_has_the_token_in_the_name_of_its_node(space: Space) {
    let [one, other] = space.peers().await;
    // For a caller who is about to wait, a place is kept if the lock is not free.
    let attempt = Attempt {
        waits: true,
        ..one.attempt("row", Limit::EXCLUSIVE)
    };
    for ends in ["release", "cancel", "take"] {
        let held = other.hold("row").await;
        let place = async {
            loop {
                assert!(one.acquire(&attempt).await.is_none());
                let shown = one.view("row").await[1].first().cloned();
                let waits = one.wait("row").await;
                match shown {
                    Some(shown) if one.engine.shown_as(waits.token).to_string() == shown => {
                        return (shown, waits);
                    }
                    // It is kept for a moment only.
                    _ => one.cancel(&waits).await,
                };
            }
        };
        let kept = tokio::time::timeout_at(soon(), place).await;
        let (shown, waits) = kept.expect("a place is kept");
        assert_eq!(one.view("row").await.concat().len(), 2);
        assert!(other.release(&held).await);
        let token = Token::parse(&shown).unwrap();
        for _ in 0..2 {
            let granted = one.enter(&waits).await;
            assert!(matches!(granted, EnqueueReply::GrantedAs(as_, _) if as_ == token));
        }
        assert_eq!(one.view("row").await[0], [&*shown]);
        let named = Claim {
            token,
            ..waits.clone()
        };
        assert!(one.number(&named).await.is_some());
        match ends {
            "release" => assert!(one.release(&named).await),
            "cancel" => assert!(one.engine.cancel(&waits, true, soon()).await.unwrap()),
            _ => {
                assert!(other.take_from(&named).await.held);
                for _ in 0..2 {
                    assert!(one.is_stale(&waits).await);
                }
                assert_eq!(one.number(&named).await, None);
            }
        }
        assert!(one.view("row").await.concat().is_empty());
    }
}
