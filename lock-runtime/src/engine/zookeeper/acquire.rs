//! Acquiring a lock, at once or in the line.

use crate::engine::background_release::{ReleaseSupervisor, UnansweredAcquire};
use crate::engine::common::line::Place;
use crate::engine::error::EngineError;
use crate::engine::request::{Acquired, Attempt, Claim, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::claims::Claims;
use crate::engine::zookeeper::look::{follow_place_of, place_of};
use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::node::{Node, Presence};
use std::sync::Arc;
use tokio::time::Instant;

/// How often a claim is made again that another client has deleted.
const MAX_ENTRIES: usize = 3;

/// A claim that was made for a caller who has not received it yet. Dropping it gives the claim up.
struct Undelivered(Option<(Arc<Claims>, Arc<Node>)>);

impl Undelivered {
    /// The caller has the lock.
    fn deliver(mut self) {
        self.0 = None;
    }

    /// The caller is about to wait.
    fn reserve(mut self) {
        if let Some((claims, node)) = self.0.take() {
            claims.reserve(&node);
        }
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if let Some((claims, node)) = self.0.take() {
            claims.leave(&node);
        }
    }
}

/// What became of an attempt.
enum Outcome {
    Holds(Undelivered),
    Waits(Undelivered),
    Left,
}

impl ZooKeeperEngine {
    pub(super) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = Token::random().with_limit(attempt.limit);
        let (claims, claim) = (self.claims.clone(), attempt.claim(token));
        let (waits, limit) = (attempt.waits, attempt.limit);
        // A claim that waits for a moment, and then leaves, would be in the way of the next try. In the caller's own
        // time: it sends nothing if the caller leaves.
        if !waits {
            let has_room = claims.has_room(&claim, deadline).await;
            if !has_room.map_err(Failure::into_error)? {
                return Ok(None);
            }
        }
        // Before anything is sent: the release of a call that is dropped finds it.
        let node = claims.node(&claim);
        let unanswered = UnansweredAcquire::new(attempt, token, supervisor);
        let outcome = self.perform(deadline, async move {
            let undelivered = Undelivered(Some((claims.clone(), node.clone())));
            let Some(entered) = claims.enter(&node, deadline).await? else {
                return Ok(Outcome::Left);
            };
            let holds = match entered.is_alone {
                Some(true) => true,
                // It looks when it waits.
                Some(false) if waits && limit.is_exclusive() => false,
                _ => place_of(&node, &entered.name, deadline).await? == Some(Place::Holds),
            };
            if holds {
                claims.secure(&node.session, claim.ttl, deadline).await?;
                claims.nodes.expire_in(token, claim.ttl);
                return Ok(Outcome::Holds(undelivered));
            }
            if waits {
                return Ok(Outcome::Waits(undelivered));
            }
            // Another client was faster. Whoever tries next must not find this node.
            drop(undelivered);
            let _ = node.ending.finished(claims.io, deadline).await;
            Ok(Outcome::Left)
        });
        unanswered.answered(outcome.await.map(|outcome| match outcome {
            Outcome::Holds(undelivered) => {
                undelivered.deliver();
                1
            }
            Outcome::Waits(undelivered) => {
                undelivered.reserve();
                0
            }
            Outcome::Left => 0,
        }))
    }

    pub(super) async fn enqueue(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        let (claims, claim) = (self.claims.clone(), claim.clone());
        let server_time = ServerTime(self.clock.now().elapsed_since(self.started));
        // Before anything is sent: a cancellation that comes next finds it.
        let node = claims.node(&claim);
        self.perform(deadline, async move {
            for _ in 0..MAX_ENTRIES {
                let Some(entered) = claims.enter(&node, deadline).await? else {
                    return Ok(EnqueueReply::Stale);
                };
                let place = match entered.is_alone {
                    Some(true) => Some(Place::Holds),
                    _ => follow_place_of(&node, &entered.name, deadline).await?,
                };
                match place {
                    Some(Place::Holds) => {
                        claims.secure(&node.session, claim.ttl, deadline).await?;
                        claims.nodes.expire_in(claim.token, claim.ttl);
                        return Ok(EnqueueReply::Granted(claim.ttl));
                    }
                    Some(place @ Place::Waits { ahead, .. }) => {
                        if ahead == 0 {
                            claims.secure_ahead(&node.session, claim.ttl);
                        }
                        return Ok(EnqueueReply::Queued(place.status(server_time)));
                    }
                    None => node.set_presence(Presence::Absent),
                }
            }
            Err(Failure::NoNode)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::common::pace::MIN_TIMEOUT;
    use crate::engine::timeouts::Timeouts;
    use crate::engine::zookeeper::address::Address;
    use crate::engine::zookeeper::net::session::SessionContext;
    use crate::engine::zookeeper::sessions::{SessionLimits, Sessions};
    use crate::util::clock::Clock;
    use crate::util::io_thread::IoThread;
    use crate::util::time::deadline_in;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    /// Returns an engine without servers.
    fn engine() -> ZooKeeperEngine {
        let config = Config::new("zookeeper://127.0.0.1:1");
        let (io, clock) = (IoThread::start().unwrap(), Clock::manual());
        let context = SessionContext {
            io,
            address: Address::parse("zookeeper://127.0.0.1:1", &config).unwrap(),
            timeouts: Timeouts::of(&config),
            first_try: MIN_TIMEOUT,
            clock: clock.clone(),
            handler: Arc::new(|_| {}),
            tick: Duration::from_secs(2),
        };
        let limits = SessionLimits {
            shortest: Duration::from_secs(4),
            longest: Duration::from_secs(40),
        };
        ZooKeeperEngine {
            claims: Claims::new(Sessions::new(context, io, limits), io, &config),
            address: "zookeeper://127.0.0.1:1".into(),
            started: clock.now(),
            clock,
            command_timeout: Duration::from_secs(1),
        }
    }

    /// A claim that is abandoned as soon as it is asked for can be canceled.
    #[tokio::test]
    async fn a_cancellation_finds_a_claim_that_is_being_made() {
        let engine = engine();
        for _ in 0..100 {
            let claim = Claim {
                name: "lock:row".into(),
                token: Token::random(),
                ttl: Duration::from_secs(1),
                replicas: 0,
            };
            let soon = || deadline_in(Duration::from_millis(20));
            {
                let mut enqueue = pin!(engine.enqueue(&claim, soon()));
                let mut context = Context::from_waker(Waker::noop());
                assert!(enqueue.as_mut().poll(&mut context).is_pending());
                assert!(engine.claims.nodes.get(claim.token).is_some());
            }
            let had_node = engine.leave(&claim, deadline_in(Duration::from_secs(9)));
            assert!(!had_node.await.unwrap());
            assert!(engine.claims.nodes.get(claim.token).is_none());
        }
    }
}
