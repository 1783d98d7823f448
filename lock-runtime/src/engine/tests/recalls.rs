//! Recalling locks that their process may keep.

use crate::engine::event::EngineEvent;
use crate::engine::recall::Recall;
use crate::engine::request::{Attempt, Claim};
use crate::engine::tests::peer::{Peer, soon, until};
use crate::engine::tests::space::Space;
use crate::limit::Limit;

impl Space {
    /// Returns a process that hears recalls.
    pub(crate) async fn listening_peer(&self) -> Peer {
        let peer = self.peer().await;
        until("it hears recalls", async || peer.hears_recalls()).await;
        peer
    }
}

impl Peer {
    pub(crate) fn hears_recalls(&self) -> bool {
        self.engine.hears_recalls(&self.name("row"))
    }

    /// Acquires a free lock, which this process may keep if it hears when others wait for it.
    pub(crate) async fn acquire_lazily(&self, key: &str) -> Claim {
        let attempt = Attempt {
            is_recallable: true,
            ..self.attempt(key, Limit::EXCLUSIVE)
        };
        self.acquire(&attempt).await.expect("it is free")
    }

    /// Waits for that recall; each member of a quorum sends one.
    pub(crate) async fn until_recalled(&mut self, expected: &Recall) {
        self.next(|event| match event {
            EngineEvent::Recalled(recall) => (recall == *expected).then_some(()),
            _ => None,
        })
        .await;
    }
}

pub(crate) async fn lock_is_recalled_from_another_process(space: Space) {
    let (mut keeper, other) = (space.listening_peer().await, space.peer().await);
    let longest = space.longest_recalled.min(1000) - space.prefix.len();
    for key in [
        "row",
        "a b  c ",
        "'\"$1; recall",
        "a\r\n\tb",
        "\\\0\\\\0",
        "ä\u{10ffff}",
        &"k".repeat(longest),
    ] {
        let kept = keeper.acquire_lazily(key).await;
        let waits = other.wait(key).await;
        let name = kept.name.clone();
        let by_waiter = Recall {
            name: name.clone(),
            token: Some(kept.token),
        };
        keeper.until_recalled(&by_waiter).await;
        let early = Recall { name, token: None };
        let recalls = [by_waiter, early.clone()];
        let sent = other.engine.recall(keeper.id, &recalls, soon());
        sent.await.unwrap();
        keeper.until_recalled(&early).await;
        for claim in [&waits, &kept] {
            keeper.cancel(claim).await;
            other.cancel(claim).await;
        }
    }
}

/// No recall could name it whole.
pub(crate) async fn recalls_of_a_long_name_are_not_heard(space: Space) {
    if space.longest_recalled < usize::MAX {
        let keeper = space.listening_peer().await;
        let hears = |length| keeper.engine.hears_recalls(&"k".repeat(length));
        assert!(hears(space.longest_recalled));
        assert!(!hears(space.longest_recalled + 1));
    }
}
