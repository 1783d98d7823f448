use super::Space;
use crate::engine::event::EngineEvent;
use crate::engine::recall::Recall;
use crate::engine::tests::peer::Peer;
use crate::engine::token::Token;
use crate::limit::Limit;

impl Peer {
    async fn next_recall(&mut self) -> Recall {
        self.next(|event| match event {
            EngineEvent::Recalled(recall) => Some(recall),
            _ => None,
        })
        .await
    }

    /// Returns the tokens that are recalled before a message that `other` sends now.
    async fn recalls_before_an_ask_of(&mut self, other: &Peer) -> Vec<Token> {
        other.ask("end").await;
        let mut recalled = Vec::new();
        loop {
            let next = self.next(|event| match event {
                EngineEvent::Recalled(recall) => Some(recall.token),
                EngineEvent::Asked(_) => Some(None),
                _ => None,
            });
            match next.await {
                Some(token) => recalled.push(token),
                None => return recalled,
            }
        }
    }
}

pub(super) async fn three_waiters_of_a_queue_recall(space: Space) {
    let (mut keeper, other) = (space.listening_peer().await, space.peer().await);
    let kept = keeper.acquire_lazily("row").await;
    let mut waiters = Vec::new();
    for expected in [1, 1, 1, 0, 0] {
        waiters.push(other.wait("row").await);
        let recalled = keeper.recalls_before_an_ask_of(&other).await;
        assert_eq!(recalled, vec![kept.token; expected]);
    }
    for claim in waiters.iter().rev().chain([&kept]) {
        other.cancel(claim).await;
    }
}

pub(super) async fn other_locks_are_not_recalled(space: Space) {
    let (mut keeper, mut other) = (space.listening_peer().await, space.listening_peer().await);
    let ordinary = keeper.hold("ordinary").await;
    let own = keeper.acquire_lazily("own").await;
    let mut reads = keeper.claim("read", Limit::UNLIMITED);
    reads.token = reads.token.recallable_if(true);
    keeper.enter(&reads).await;
    let waiters = [
        other.wait("ordinary").await,
        keeper.wait("own").await,
        other.wait("read").await,
    ];
    for process in [&mut keeper, &mut other] {
        let asking = space.peer().await;
        assert_eq!(process.recalls_before_an_ask_of(&asking).await, []);
    }
    for claim in waiters.iter().chain([&ordinary, &own, &reads]) {
        other.cancel(claim).await;
    }
}

/// Whoever knows the channel could give a lock to two holders.
pub(super) async fn nothing_but_a_recall_comes_on_the_channel_that_others_know(space: Space) {
    let mut keeper = space.listening_peer().await;
    let token = "0123456789abcdef0123456789abcdef";
    for text in [
        format!("grant {token} 1 2000000 lock:row"),
        format!("first {token}"),
        format!("recall {token} lock:row"),
    ] {
        let channel = format!("distributed_lock_recalls_{}", keeper.id);
        space.execute(&format!("SELECT pg_notify('{channel}', '{text}')"));
    }
    let is_recall = keeper.next(|event| match event {
        EngineEvent::Granted(_) | EngineEvent::AtFront(_) => Some(false),
        EngineEvent::Recalled(_) => Some(true),
        _ => None,
    });
    assert!(is_recall.await);
}

pub(super) async fn recalls_are_heard_again_after_the_connection_has_ended(space: Space) {
    let mut keeper = space.peer().await;
    assert!(!keeper.hears_recalls(), "it begins to listen");
    while !keeper.hears_recalls() {
        keeper.until_resubscribed().await;
    }
    let other = space.peer().await;
    let kept = keeper.acquire_lazily("row").await;
    space.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE query LIKE '%LISTEN%' AND application_name = 'distributed_lock'",
    );
    // Recalls may have been missed when it ends, and until there is another one.
    keeper.until_resubscribed().await;
    keeper.until_resubscribed().await;
    assert!(keeper.hears_recalls());
    let waits = other.wait("row").await;
    assert_eq!(keeper.next_recall().await.token, Some(kept.token));
    for claim in [&waits, &kept] {
        other.cancel(claim).await;
    }
}

pub(super) async fn process_behind_a_pooler_recalls_and_hears_no_recall(space: Space) {
    let pooler = space.pooler();
    let pooled = Peer::connect(space.config_at(&pooler.url())).await;
    assert!(!pooled.hears_recalls());
    let mut keeper = space.listening_peer().await;
    let kept = keeper.acquire_lazily("row").await;
    let mut waiters = Vec::new();
    for expected in [1, 1, 1, 0] {
        // The first one waits until it is known whether messages arrive.
        waiters.push(pooled.wait("row").await);
        let recalled = keeper.recalls_before_an_ask_of(&pooled).await;
        assert_eq!(recalled, vec![kept.token; expected]);
    }
    assert!(!pooled.hears_recalls());
    for claim in waiters.iter().rev().chain([&kept]) {
        keeper.cancel(claim).await;
    }
}
