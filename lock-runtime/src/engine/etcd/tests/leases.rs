//! What a lease proves, and on which lease a claim's key is.

use crate::engine::etcd::tests::scripted_server::{DELAY, ScriptedServer};
use crate::engine::event::EngineEvent;
use crate::engine::request::{Attempt, Claim, EnqueueReply};
use crate::engine::tests::peer::{Peer, soon};
use crate::limit::Limit;
use crate::util::clock::Clock;
use crate::util::time::{deadline_in, sleep_until};
use std::slice::from_ref;
use std::time::Duration;
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(1);

/// A client of a scripted server, and its clock, by which leases end.
struct Client {
    server: ScriptedServer,
    clock: Clock,
    peer: Peer,
}

impl Client {
    async fn connect() -> Client {
        let (server, clock) = (ScriptedServer::start().await, Clock::manual());
        Client {
            peer: Peer::with(server.config(), clock.clone()).await,
            server,
            clock,
        }
    }

    fn pass(&self, time: Duration) {
        self.clock.advance(time, time);
    }

    async fn acquire(&self) -> Claim {
        let attempt = Attempt {
            ttl: TTL,
            ..self.peer.attempt("row", Limit::EXCLUSIVE)
        };
        self.peer.acquire(&attempt).await.expect("it is free")
    }

    /// Enters the line behind another client, and waits for that time.
    async fn wait(&self, time: Duration) -> Claim {
        self.server.hold();
        let claim = Claim {
            ttl: TTL,
            ..self.peer.claim("row", Limit::EXCLUSIVE)
        };
        let entered = self.peer.enter(&claim).await;
        assert!(matches!(entered, EnqueueReply::Queued(_)), "{entered:?}");
        self.pass(time);
        claim
    }

    /// Waits until the watch has reported that the claim is the first.
    async fn until_first(&mut self) {
        self.peer
            .next(|event| matches!(event, EngineEvent::MayBeFree(_)).then_some(()))
            .await;
    }

    async fn renew(&self, claim: &Claim, deadline: Instant) -> bool {
        let renewed = self.peer.engine.renew(from_ref(claim), deadline).await;
        matches!(renewed.as_deref(), Ok([Ok(true)]))
    }

    /// Returns for how long the claim's key is proven.
    fn left(&self, claim: &Claim) -> Duration {
        let now = self.clock.now();
        let lease = self.peer.engine.lease(claim.token, now, TTL * 2);
        lease.remaining(now)
    }

    async fn end(self, claim: &Claim) {
        assert!(self.peer.release(claim).await);
    }
}

/// The server may have granted the lease as soon as it was asked.
#[tokio::test]
async fn a_lease_counts_from_before_the_request_that_granted_it() {
    let client = Client::connect().await;
    client.server.be_slow(client.clock.clone());
    let claim = client.acquire().await;
    let left = client.left(&claim);
    assert!(left > Duration::ZERO && left <= TTL - DELAY, "{left:?}");
    client.end(&claim).await;
}

/// A leader that died has lost the first two requests. The command timeout is longer than the test.
#[tokio::test]
async fn a_grant_without_a_reply_is_asked_for_again() {
    let client = Client::connect().await;
    client.server.lose_grants(2);
    let claim = client.acquire().await;
    client.end(&claim).await;
}

/// A leader that was frozen has leases revoked that were kept alive meanwhile.
#[tokio::test]
async fn a_lease_that_is_kept_alive_proves_no_more() {
    let client = Client::connect().await;
    let claim = client.acquire().await;
    client.pass(TTL / 2);
    while client.server.kept_alive() == 0 {
        sleep_until(deadline_in(Duration::from_millis(5))).await;
    }
    // The reply has come when another request gets its reply.
    assert!(client.peer.number(&claim).await.is_some());
    let left = client.left(&claim);
    assert!(left > Duration::ZERO && left <= TTL / 2, "{left:?}");
    client.end(&claim).await;
}

#[tokio::test]
async fn a_renewal_attaches_the_key_to_a_new_lease() {
    let client = Client::connect().await;
    let claim = client.acquire().await;
    let first = client.server.lease_of_claim();
    client.pass(TTL / 2);
    assert!(client.renew(&claim, soon()).await);
    assert_ne!(client.server.lease_of_claim(), first);
    let left = client.left(&claim);
    assert!(left > TTL / 10 * 9, "{left:?}");
    client.end(&claim).await;
}

/// The key may be on either lease.
#[tokio::test]
async fn a_renewal_without_a_reply_leaves_the_proof_that_ends_first() {
    let client = Client::connect().await;
    let claim = client.acquire().await;
    client.pass(TTL / 2);
    client.server.fall_silent();
    let at_once = deadline_in(Duration::from_millis(300));
    assert!(!client.renew(&claim, at_once).await);
    let left = client.left(&claim);
    assert!(left > Duration::ZERO && left <= TTL / 2, "{left:?}");
    // It ends the connection, and the renewal is repeated on another one.
    let _ = client.peer.engine.fencing_token(&claim, soon()).await;
    assert!(client.renew(&claim, soon()).await);
    let left = client.left(&claim);
    assert!(left > TTL / 10 * 9, "{left:?}");
    client.end(&claim).await;
}

/// With less than half of a lease, one slow write could lose the lock at once.
#[tokio::test]
async fn an_admitted_waiter_holds_with_half_of_a_lease_or_on_a_new_one() {
    for (waited, moves) in [(TTL * 2, true), (TTL / 10 * 6, true), (TTL / 10 * 4, false)] {
        let mut client = Client::connect().await;
        let claim = client.wait(waited).await;
        let first = client.server.lease_of_claim();
        client.server.release().await;
        client.until_first().await;
        let reply = client.peer.enter(&claim).await;
        assert!(matches!(reply, EnqueueReply::AlreadyHeld(_)), "{reply:?}");
        assert_eq!(client.server.lease_of_claim() != first, moves, "{waited:?}");
        let (left, least) = (client.left(&claim), if moves { 8 } else { 5 });
        assert!(left > TTL / 10 * least, "{left:?} after {waited:?}");
        client.end(&claim).await;
    }
}

/// What is left to a waiter that is admitted soon suffices, so that the lock passes without a request.
#[tokio::test]
async fn the_first_waiter_moves_before_it_would_have_to() {
    for (waited, moves) in [(TTL / 10 * 4, true), (TTL / 10 * 3, false)] {
        let client = Client::connect().await;
        let claim = client.wait(waited).await;
        let first = client.server.lease_of_claim();
        let reply = client.peer.enter(&claim).await;
        assert!(matches!(reply, EnqueueReply::Queued(_)), "{reply:?}");
        assert_eq!(client.server.lease_of_claim() != first, moves, "{waited:?}");
        client.end(&claim).await;
    }
}

/// Its lease was revoked early, and the report of that is still under way.
#[tokio::test]
async fn an_admitted_waiter_whose_key_is_gone_waits_under_another_token() {
    let mut client = Client::connect().await;
    let claim = client.wait(TTL * 2).await;
    client.server.release().await;
    client.until_first().await;
    client.server.forget_claims();
    let reply = client.peer.enter(&claim).await;
    assert!(matches!(reply, EnqueueReply::Stale), "{reply:?}");
    let claim = client.wait(Duration::ZERO).await;
    client.end(&claim).await;
}
