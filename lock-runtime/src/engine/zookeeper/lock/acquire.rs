//! Acquiring a lock that is free, or a place in its line for a caller that is about to wait.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::common::line::Place;
use crate::engine::error::EngineError;
use crate::engine::request::{Acquired, Attempt, Claim};
use crate::engine::token::Draw;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::look::place_of;
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::wire::error::Failure;
use std::sync::Arc;
use tokio::time::Instant;

/// A claim that was made for a caller who has not received it yet. Dropping it gives the claim up.
struct Undelivered(Option<(Arc<Claims>, Arc<Node>)>);

impl Undelivered {
    /// The caller has the claim.
    fn deliver(mut self) {
        self.0 = None;
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if let Some((claims, node)) = self.0.take() {
            claims.leave(&node);
        }
    }
}

impl ZooKeeperEngine {
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        supervisor: &Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = attempt.token(Draw::now());
        let (claims, claim) = (self.claims.clone(), attempt.claim(token));
        let waits = attempt.waits;
        // A claim that waits for a moment, and then leaves, would be in the way of the next try. In the
        // caller's own time: it sends nothing if the caller leaves.
        if !waits {
            let has_room = claims.has_room(&claim, deadline).await;
            if !has_room.map_err(Failure::into_error)? {
                return Ok(None);
            }
        }
        // Before anything is sent: the release of a call that is dropped finds it.
        let node = claims.node(&claim);
        let awaited = AwaitedAcquire::new(attempt, token, supervisor);
        let entered = claims.try_enter(node, claim, waits, deadline);
        let entered = self.claims.run(deadline, entered).await;
        let count = entered.map(|entered| {
            let (undelivered, count) = entered?;
            undelivered.deliver();
            Some(count)
        });
        let reserved = matches!(count, Ok(Some(0)));
        let acquired = awaited.replied(count.map(Option::unwrap_or_default))?;
        Ok(acquired.or_else(|| reserved.then_some(Acquired::Place(token))))
    }
}

impl Claims {
    /// Enters the line, and leaves it if the claim neither holds the lock nor is about to wait. Otherwise
    /// returns the claim, with the number of locks that it holds: 1, or 0 if it waits.
    async fn try_enter(
        self: Arc<Self>,
        node: Arc<Node>,
        claim: Claim,
        waits: bool,
        deadline: Instant,
    ) -> Result<Option<(Undelivered, usize)>, Failure> {
        let undelivered = Undelivered(Some((self.clone(), node.clone())));
        let Some(entered) = self.enter(&node, deadline).await? else {
            return Ok(None);
        };
        let holds = match entered.is_alone {
            Some(true) => true,
            // It looks when it waits.
            Some(false) if waits && claim.token.limit().is_exclusive() => false,
            _ => place_of(&node, &entered.name, deadline).await? == Some(Place::Holds),
        };
        if holds {
            self.secure(&node.session, claim.ttl, deadline).await?;
            self.nodes.expire_in(claim.token, claim.ttl);
            self.watch_for_others(&claim.name, &node);
            return Ok(Some((undelivered, 1)));
        }
        if waits {
            return Ok(Some((undelivered, 0)));
        }
        // Another client was faster. Whoever tries next must not find this node.
        drop(undelivered);
        let _ = node.ending.finished(self.io, deadline).await;
        Ok(None)
    }
}
