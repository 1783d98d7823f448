//! Taking locks.

use super::{Peer, soon, text};
use crate::config::Config;
use crate::engine::background_release::{ReleaseSupervisor, Unused};
use crate::engine::error::EngineErrorKind;
use crate::engine::operations::Taken;
use crate::engine::request::{Attempt, Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::engine::view::View;
use crate::limit::Limit;
use lock_test_support::time::eventually;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;
use std::sync::Arc;
use std::time::Duration;

const EXCLUSIVE: Limit = Limit::EXCLUSIVE;

impl Peer {
    async fn take(&self, key: &str, token: &str) -> Taken {
        let name = format!("lock:{key}");
        let taken = self.engine.take(&name, token, 0, soon()).await;
        taken.unwrap()
    }

    async fn view(&self, key: &str) -> View {
        let name = format!("lock:{key}");
        self.engine.view(&name, 9, soon()).await.unwrap()
    }

    /// Tries the lock for a caller who is about to wait: a place is kept if it is not free.
    async fn reserves(&self, key: &str) -> bool {
        let attempt = Attempt {
            is_recallable: false,
            process: self.process,
            name: format!("lock:{key}").into(),
            ttl: Duration::from_secs(30),
            replicas: 0,
            limit: EXCLUSIVE,
            waits: true,
            others: None,
        };
        let supervisor: Arc<dyn ReleaseSupervisor> = Arc::new(Unused);
        let acquired = self.engine.acquire(&attempt, &supervisor, soon()).await;
        acquired.unwrap().is_some()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_in_line_enters_and_the_taken_token_never_again() {
    let zookeeper = ZooKeeper::start();
    let (holder, mut next, operator) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    let (held, waits) = (holder.claim("row", EXCLUSIVE), next.claim("row", EXCLUSIVE));
    assert!(holder.enter(&held).await);
    assert!(!next.enter(&waits).await);
    let before = holder.fencing_token(&held).await.unwrap();

    // A token that has not the lock changes nothing.
    let other = text(holder.claim("row", EXCLUSIVE).token);
    let missed = operator.take("row", &other).await;
    assert!(!missed.held && missed.fencing_token > before);
    assert_eq!(
        operator.view("row").await.holders[0].token[..],
        text(held.token)
    );
    let during = holder.fencing_token(&held).await.unwrap();
    assert!(during > missed.fencing_token);

    let token = &operator.view("row").await.holders[0].token;
    let taken = operator.take("row", token).await;
    assert!(taken.held && !taken.pinned && taken.fencing_token > during);
    assert!(next.enter_when_notified(&waits).await);
    let after = next.fencing_token(&waits).await.unwrap();
    assert!(after > taken.fencing_token);

    // Whatever is asked for that token later.
    assert_eq!(holder.fencing_token(&held).await, None);
    let renewed = holder.engine.renew(std::slice::from_ref(&held), soon());
    assert!(matches!(renewed.await.unwrap()[..], [Ok(false)]));
    let again = operator.take("row", token).await;
    assert!(!again.held && again.fencing_token > after);
    assert_eq!(
        operator.view("row").await.holders[0].token[..],
        text(waits.token)
    );
    next.engine.release(&waits, soon()).await.unwrap();
    assert!(zookeeper.claims().is_empty());
}

/// The holder polls the line before it has heard that it holds the lock, or before it finds that it does not.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_were_taken_do_not_enter_again() {
    let zookeeper = ZooKeeper::start();
    let (one, operator) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    for limit in [EXCLUSIVE, Limit::UNLIMITED] {
        let (held, waits) = (one.claim("row", limit), one.claim("row", EXCLUSIVE));
        assert!(one.enter(&held).await);
        assert!(!one.enter(&waits).await);
        // A waiter loses its place.
        let taken = operator.take("row", &text(waits.token)).await;
        assert!(!taken.held);
        assert!(one.is_stale(&waits).await);
        assert!(operator.take("row", &text(held.token)).await.held);
        assert!(one.is_stale(&held).await);
        assert!(one.is_stale(&held).await);
        assert_eq!(zookeeper.claims(), [""; 0]);
        assert!(!one.engine.cancel(&held, false, soon()).await.unwrap());
        let next = one.claim("row", limit);
        assert!(one.enter(&next).await);
        one.engine.release(&next, soon()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_holders_is_taken() {
    let zookeeper = ZooKeeper::start();
    let (one, mut other) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    let claims = [(); 3].map(|()| one.claim("row", Limit::UNLIMITED));
    for claim in &claims {
        assert!(one.enter(claim).await);
    }
    let writer = other.claim("row", EXCLUSIVE);
    assert!(!other.enter(&writer).await);
    assert!(other.take("row", &text(claims[1].token)).await.held);
    let view = other.view("row").await;
    let left: Vec<_> = view.holders.iter().map(|it| it.token.to_string()).collect();
    assert_eq!(left, [&claims[0], &claims[2]].map(|it| text(it.token)));
    assert!(one.fencing_token(&claims[0]).await.is_some());
    for claim in [&claims[0], &claims[2]] {
        assert!(other.take("row", &text(claim.token)).await.held);
    }
    assert!(other.enter_when_notified(&writer).await);
    other.engine.release(&writer, soon()).await.unwrap();

    // One that was exclusive is named by what it is now.
    let held = one.claim("row", EXCLUSIVE);
    assert!(one.enter(&held).await);
    let to = held.token.again().with_limit(Limit::UNLIMITED);
    let downgraded = one.engine.downgrade(&held, to, soon()).await;
    assert!(downgraded.unwrap().is_some());
    let token = other.view("row").await.holders[0].token.clone();
    assert_eq!(token[..], text(to));
    assert!(!other.take("row", &text(held.token)).await.held);
    assert!(other.take("row", &token).await.held);
    assert_eq!(zookeeper.claims(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_other_clients_are_taken_by_their_names() {
    let zookeeper = ZooKeeper::start();
    let peer = Peer::connect(&zookeeper.url()).await;
    let mut client = zookeeper.client();
    client.create_all("/lock/row");
    for stem in [
        "_c_01234567-89ab-4def-8123-456789abcdef-lock-",
        "thief-lock-",
        &"x".repeat(9000),
    ] {
        let path = format!("/lock/row/{stem}");
        let path = client.create(&path, Kind::PersistentNumbered).unwrap();
        let view = peer.view("row").await;
        let [holder] = &view.holders[..] else {
            panic!("{view:?}");
        };
        assert!(path.ends_with(&*holder.token));
        assert!(!peer.take("row", "thief").await.held);
        assert!(peer.take("row", &holder.token).await.held);
        assert!(!client.exists(&path));
    }
    // A child without a number is no claim.
    client.create("/lock/row/config", Kind::Persistent).unwrap();
    assert!(!peer.take("row", "config").await.held);
    assert!(client.exists("/lock/row/config"));
    let never = peer.take("never", "x").await;
    assert!(!never.held && never.fencing_token > 0);
    assert!(!client.exists("/lock/never"));
}

/// The ids of transactions can't be raised, and nothing is taken without a number that is great enough.
#[tokio::test(flavor = "multi_thread")]
async fn greater_number_than_the_servers_is_refused() {
    let zookeeper = ZooKeeper::start();
    let peer = Peer::connect(&zookeeper.url()).await;
    let held = peer.claim("row", EXCLUSIVE);
    assert!(peer.enter(&held).await);
    let before = peer.fencing_token(&held).await.unwrap();
    let token = text(held.token);
    let take = |at_least| peer.engine.take("lock:row", &token, at_least, soon());
    let refused = take(u64::MAX).await.unwrap_err();
    assert_eq!(refused.kind, EngineErrorKind::Rejected);
    assert!(peer.fencing_token(&held).await.is_some());
    let taken = take(before).await.unwrap();
    assert!(taken.held && taken.fencing_token > before);
}

/// The session ends that the claim was in, and the claim does not come back in the next one: its caller makes another.
#[tokio::test(flavor = "multi_thread")]
async fn taken_claim_does_not_enter_in_the_next_session() {
    let zookeeper = ZooKeeper::start();
    let proxy = zookeeper.proxy(0);
    let url = format!("zookeeper://127.0.0.1:{}", proxy.port());
    let ttl = Duration::from_secs(1);
    let (one, other) = (
        Peer::with(Config::new(&*url).ttl(ttl)).await,
        Peer::connect(&zookeeper.url()).await,
    );
    assert!(other.enter(&other.claim("row", EXCLUSIVE)).await);
    let claim = || Claim {
        ttl,
        ..one.claim("row", EXCLUSIVE)
    };
    let waits = claim();
    assert!(!one.enter(&waits).await);
    proxy.black_hole();
    other.take("row", &text(waits.token)).await;
    let sessions = || zookeeper.client().children("/lock/::sessions").len();
    eventually("its session ends", || sessions() == 1);
    proxy.heal();
    // The session finds that it has ended.
    let reply = loop {
        if let Ok(reply) = one.engine.enqueue(&waits, None, soon()).await {
            break reply;
        }
    };
    assert!(matches!(reply, EnqueueReply::Stale));
    assert_eq!(zookeeper.claims().len(), 1);
    assert!(!one.enter(&claim()).await);
    assert_eq!(zookeeper.claims().len(), 2);
}

/// A claim may wait with the node that an earlier try has made. Its holder has the token that others see, also if a reply
/// is lost.
#[tokio::test(flavor = "multi_thread")]
async fn holder_has_the_token_in_the_name_of_its_node() {
    let zookeeper = ZooKeeper::start();
    let (one, other) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    for ends in ["release", "cancel", "take"] {
        let held = other.claim("row", EXCLUSIVE);
        assert!(other.enter(&held).await);
        assert!(!one.reserves("row").await);
        let shown = one.view("row").await.waiters[0].to_string();
        let waits = one.claim("row", EXCLUSIVE);
        assert!(!one.enter(&waits).await);
        assert_eq!(zookeeper.claims().len(), 2);
        assert_eq!(text(one.engine.shown_as(waits.token)), shown);
        other.engine.release(&held, soon()).await.unwrap();
        let token = Token::parse(&shown).unwrap();
        for _ in 0..2 {
            let granted = one.engine.enqueue(&waits, None, soon()).await.unwrap();
            assert!(matches!(granted, EnqueueReply::GrantedAs(as_, _) if as_ == token));
        }
        assert_eq!(one.view("row").await.holders[0].token[..], shown);
        let named = Claim {
            token,
            ..waits.clone()
        };
        assert!(one.fencing_token(&named).await.is_some());
        match ends {
            "release" => assert!(one.engine.release(&named, soon()).await.unwrap()),
            "cancel" => assert!(one.engine.cancel(&waits, true, soon()).await.unwrap()),
            _ => {
                assert!(other.take("row", &shown).await.held);
                assert!(one.is_stale(&waits).await);
                assert_eq!(one.fencing_token(&named).await, None);
            }
        }
        assert_eq!(zookeeper.claims(), [""; 0]);
    }
}
