use super::Space;
use crate::config::Config;
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::tests::peer::{Peer, soon};
use lock_test_support::postgres::Postgres;
use lock_test_support::servers::Pooled;
use std::slice::from_ref;
use tokio_postgres::types::ToSql;

pub(super) async fn taken_token_is_of_that_lock_alone(space: Space) {
    let peer = space.peer().await;
    let held = peer.hold("row").await;
    assert!(peer.take_from(&held).await.held);
    let elsewhere = Claim {
        name: peer.name("other").into(),
        ..held
    };
    peer.enters(&elsewhere).await;
    assert!(peer.release(&elsewhere).await);
}

pub(super) async fn lock_of_another_client_is_taken_by_its_text(space: Space) {
    let (peer, name) = (space.peer().await, space.name("row"));
    space.execute(&format!(
        "INSERT INTO distributed_lock.held VALUES ('{name}', 'theirs', 1, 1, now() + interval '1 h')",
    ));
    let [holders, _] = peer.view("row").await;
    assert_eq!(holders, ["theirs"]);
    assert!(peer.take("row", &holders[0]).await.held);
    let next = peer.hold("row").await;
    assert!(peer.release(&next).await);
}

/// The transaction may still commit.
pub(super) async fn pinned_lock_is_free_when_the_transaction_has_ended(space: Space) {
    let peer = space.peer().await;
    let held = peer.hold("row").await;
    let proof = peer.engine.prove(from_ref(&held), soon()).await;
    let proof = proof.unwrap().unwrap();
    let mut client = space.servers::<Pooled>().server.client().await;
    let transaction = client.transaction().await.unwrap();
    let (names, numbers) = (proof.names(), proof.numbers());
    let arguments: [&(dyn ToSql + Sync); 2] = [&names, &numbers];
    let ensured = transaction.execute(proof.statement(), &arguments).await;
    ensured.unwrap();
    let waits = peer.wait("row").await;
    let taken = peer.take_from(&held).await;
    assert!(taken.held && taken.pinned);
    let again = peer.take_from(&held).await;
    assert!(!again.held && again.pinned);
    let reply = peer.enter(&waits).await;
    assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
    transaction.commit().await.unwrap();
    let after = peer.take_from(&held).await;
    assert!(!after.held && !after.pinned);
    peer.enters(&waits).await;
    peer.cancel(&waits).await;
}

pub(super) async fn tokens_that_were_taken_long_ago_are_forgotten(space: Space) {
    let peer = space.peer().await;
    let held = peer.hold("row").await;
    peer.take_from(&held).await;
    space.execute("UPDATE distributed_lock.taken SET expires_at = now() - interval '1 s'");
    peer.enters(&held).await;
    assert!(peer.release(&held).await);
    peer.take("other", "x").await;
    assert_eq!(space.count("taken"), 1);
}

/// A later crash does not give the lock back to its holder.
#[tokio::test]
async fn what_was_taken_survives_a_crash() {
    let mut server = Postgres::start();
    let peer = Peer::connect(Config::new(server.url())).await;
    let held = peer.hold("row").await;
    assert!(peer.take_from(&held).await.held);
    server.kill();
    server.restart();
    let peer = Peer::connect(Config::new(server.url())).await;
    assert!(peer.view("row").await.concat().is_empty());
    assert!(peer.is_stale(&held).await);
}
