//! Releasing a claim, whether it waits or holds the lock: its node is deleted.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::Claim;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::session::done;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::node::{Node, Presence};
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::request::Request;
use crate::util::backoff::Backoff;
use crate::util::count::Owed;
use crate::util::time::{deadline_in, sleep_until};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl ZooKeeperEngine {
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.leave(claim, deadline).await
    }

    // A session carries requests out in order, so none can be late.
    pub(crate) async fn cancel(
        &self,
        claim: &Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.leave(claim, deadline).await
    }

    /// Gives up the claim, whatever it has. Returns `true` if it had a node.
    async fn leave(&self, claim: &Claim, deadline: Instant) -> Result<bool, EngineError> {
        let Some(node) = self.claims.nodes.get(claim.token) else {
            return Ok(false);
        };
        self.claims.leave(&node);
        let gone = node.ending.finished(self.claims.io, deadline).await;
        gone.map_err(|error| match error.kind {
            // The session knows why there is no reply.
            EngineErrorKind::Indeterminate => node.session.no_reply().into_error(),
            _ => error,
        })
    }

    /// Gives up the claim in the background, and confirms the release.
    pub(crate) fn leave_in_background(&self, release: BackgroundRelease) {
        let node = self.claims.nodes.get(release.claim.token);
        if let Some(node) = &node {
            self.claims.leave(node);
        }
        let (io, limit) = (self.claims.io, self.claims.command_timeout);
        io.spawn_detached(async move {
            let Some(node) = node else {
                return release.confirm(false);
            };
            match node.ending.finished(io, deadline_in(limit)).await {
                Ok(was_owner) => release.confirm(was_owner),
                Err(_) => release.hand_over(true),
            }
        });
    }

    /// Waits for the claims that are being given up, and ends the sessions without claims.
    pub(crate) async fn drain(&self, deadline: Instant) -> Result<(), EngineError> {
        let claims = self.claims.clone();
        let left = self.claims.run(deadline, async move {
            claims.close();
            let pause = || sleep_until(deadline_in(Duration::from_millis(2)));
            claims.leaving.wait_idle().await;
            let nodes = &claims.nodes;
            let closed = claims
                .sessions
                .close_if(|session| !nodes.any(|node| Arc::ptr_eq(&node.session, session)));
            while !closed.iter().all(|session| session.is_ended()) {
                pause().await;
            }
            Ok(())
        });
        left.await.or(Ok(()))
    }
}

impl Claims {
    /// Deletes the node in the background, until it is known to be gone.
    pub(crate) fn leave(self: &Arc<Self>, node: &Arc<Node>) {
        if !node.ending.begin() {
            return;
        }
        let owed = Owed::begin(&self.leaving);
        let (this, node) = (self.clone(), node.clone());
        self.io.spawn_detached(async move {
            let deleted = this.until_deleted(&node).await;
            if deleted {
                this.containers.saw(&node.lock, true);
            }
            node.forget(&this.nodes);
            node.ending.finish(deleted);
            drop(owed);
        });
    }

    async fn until_deleted(&self, node: &Node) -> bool {
        let _turn = node.turn.lock().await;
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
        // Then it is this process that has deleted the node.
        let mut was_sent = false;
        loop {
            if node.session.is_ended() {
                return false;
            }
            let deadline = deadline_in(self.command_timeout);
            let failed = match node.presence() {
                Presence::Absent | Presence::Gone => return false,
                Presence::Requested => self.find(node, deadline).await.is_err(),
                Presence::Present(name) => {
                    let path = node.path(&name);
                    let deleted = node.session.request(Request::Delete { path }, deadline);
                    match done(deleted.await) {
                        Ok(deleted) => return deleted || was_sent,
                        Err(failure) => {
                            was_sent |= matches!(failure, Failure::NoReply(_));
                            node.ending.fail(failure.into_error());
                            true
                        }
                    }
                }
            };
            if failed {
                sleep_until(deadline_in(backoff.pause())).await;
            }
        }
    }
}
