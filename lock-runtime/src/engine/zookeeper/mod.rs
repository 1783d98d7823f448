//! Locks in ZooKeeper.
//!
//! A lock is a node, and its claims are ephemeral children in the order of their numbers: the layout of Curator's
//! `InterProcessMutex`, which therefore queues in the same line. A claim's limit is in the name of its node, so the
//! list of the children tells who holds the lock, and every client finds the same.

pub(crate) mod address;
pub(crate) mod claims;
pub(crate) mod inspect;
pub(crate) mod line;
pub(crate) mod net;
pub(crate) mod nodes;
pub(crate) mod open;
pub(crate) mod paths;
pub(crate) mod sessions;

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::request::{
    Acquired, Attempt, Claim, EngineFuture, EnqueueReply, QueueStatus, ServerTime,
};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::engine::zookeeper::claims::Claims;
use crate::engine::zookeeper::line::Standing;
use crate::engine::zookeeper::net::messages::{Failure, Reply, Request};
use crate::engine::zookeeper::net::session::{Session, done};
use crate::engine::zookeeper::nodes::{Node, Place};
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::{Clock, Timestamp};
use crate::util::join_all::join_all;
use crate::util::time::deadline_in;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How often a claim is made again that another client has deleted.
const MAX_ENTRIES: usize = 3;

/// For how long a claim that waits asks no more often than its place in the line demands: the end of a holder is told.
const UNTIL_TOLD: Duration = Duration::from_secs(60);

/// The longest key, in bytes. ZooKeeper keeps all paths in memory.
const MAX_KEY: usize = 8192;

/// How long a task may be late for its own deadline, and still tell more than that it has passed.
const GRACE: Duration = Duration::from_millis(20);

pub(crate) struct ZooKeeperEngine {
    claims: Arc<Claims>,
    address: Arc<str>,
    clock: Clock,
    started: Timestamp,
    command_timeout: Duration,
}

/// A lock that was acquired for a caller who has not received it yet. Dropping it gives the lock back.
struct Undelivered(Option<(Arc<Claims>, Arc<Node>)>);

impl Undelivered {
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
    /// Runs work on the I/O thread to its end, and returns its result if that comes by the deadline.
    async fn perform<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let io = self.claims.io;
        let (sender, result) = oneshot::channel();
        io.spawn_detached(async move {
            // The caller may have left.
            let _ = sender.send(work.await);
        });
        let result = io.timeout_at(deadline + GRACE, result).await;
        let late = || Failure::Unanswered("no reply in time".into());
        let result = result
            .map_err(|_| late())
            .and_then(|it| it.map_err(|_| late()));
        result
            .and_then(|result| result)
            .map_err(Failure::into_error)
    }

    async fn acquire(
        &self,
        attempt: &Attempt,
        deadline: Instant,
    ) -> Result<Option<Acquired>, EngineError> {
        let token = Token::random().with_limit(attempt.limit);
        let (claims, claim) = (self.claims.clone(), attempt.claim(token));
        // In the caller's own time: it sends nothing if the caller leaves.
        let has_room = claims.has_room(&claim, deadline).await;
        if !has_room.map_err(Failure::into_error)? {
            return Ok(None);
        }
        let acquired = self.perform(deadline, async move {
            let node = claims.node(&claim);
            let undelivered = Undelivered(Some((claims.clone(), node.clone())));
            let Some(name) = claims.enter(&node, deadline).await? else {
                return Ok(None);
            };
            if claims.standing(&node, &name, false, deadline).await? == Standing::Holds {
                claims.secure(&node.session, claim.ttl, deadline).await?;
                claims.nodes.expire_in(token, claim.ttl);
                return Ok(Some(undelivered));
            }
            // Another client was faster. Whoever tries next must not find this node.
            drop(undelivered);
            node.until_gone().await;
            Ok(None)
        });
        Ok(acquired.await?.map(|undelivered| {
            undelivered.deliver();
            Acquired { token, count: 1 }
        }))
    }

    async fn enqueue(&self, claim: &Claim, deadline: Instant) -> Result<EnqueueReply, EngineError> {
        let (claims, claim) = (self.claims.clone(), claim.clone());
        let server_time = ServerTime(self.clock.now().elapsed_since(self.started));
        // Before anything is sent: a cancellation that comes next finds it.
        let node = claims.node(&claim);
        self.perform(deadline, async move {
            for _ in 0..MAX_ENTRIES {
                let Some(name) = claims.enter(&node, deadline).await? else {
                    return Ok(EnqueueReply::Stale);
                };
                match claims.standing(&node, &name, true, deadline).await? {
                    Standing::Holds => {
                        claims.secure(&node.session, claim.ttl, deadline).await?;
                        claims.nodes.expire_in(claim.token, claim.ttl);
                        return Ok(EnqueueReply::Granted(claim.ttl));
                    }
                    Standing::Waits {
                        ahead, has_others, ..
                    } => {
                        return Ok(EnqueueReply::Queued(QueueStatus {
                            server_time,
                            holder_ttl: UNTIL_TOLD,
                            position: ahead as u64,
                            has_others,
                        }));
                    }
                    Standing::Absent => node.set_place(Place::Nowhere),
                }
            }
            Err(Failure::NoNode)
        })
        .await
    }

    /// Gives up the claim, whatever it has. Returns `true` if it had a node.
    async fn leave(&self, claim: &Claim, deadline: Instant) -> Result<bool, EngineError> {
        let Some(node) = self.claims.nodes.get(claim.token) else {
            return Ok(false);
        };
        self.claims.leave(&node);
        let gone = self.claims.io.timeout_at(deadline, node.until_gone()).await;
        gone.map_err(|_| node.session.unanswered().into_error())
    }

    async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let (mine, clock) = (self.claims.clone(), self.clock.clone());
        let claims = claims.to_vec();
        let renewed = self.perform(deadline, async move {
            let nodes: Vec<_> = claims
                .iter()
                .map(|claim| mine.nodes.get(claim.token))
                .collect();
            let mut sessions: Vec<(&Arc<Session>, Duration)> = Vec::new();
            for (claim, node) in claims.iter().zip(&nodes) {
                let Some(node) = node else { continue };
                match sessions
                    .iter_mut()
                    .find(|(known, _)| Arc::ptr_eq(known, &node.session))
                {
                    Some((_, ttl)) => *ttl = claim.ttl.max(*ttl),
                    None => sessions.push((&node.session, claim.ttl)),
                }
            }
            let now = clock.now();
            let proofs = sessions.iter().map(async |(session, ttl)| {
                let proven = session.lease().map(|lease| lease.remaining(now));
                match proven.is_some_and(|proven| proven >= *ttl) {
                    true => Ok(()),
                    false => mine.prove(session, deadline).await.map(drop),
                }
            });
            let proofs = join_all(proofs).await;
            let proof = |node: &Arc<Node>| {
                let mut of = sessions.iter().zip(&proofs);
                let of = of.find(|((session, _), _)| Arc::ptr_eq(session, &node.session));
                of.map_or(Ok(()), |(_, proof)| proof.clone())
            };
            let looks = claims.iter().zip(&nodes).map(async |(claim, node)| {
                let Some(node) = node else { return Ok(false) };
                let exists = match proof(node) {
                    Ok(()) => exists(node, deadline).await,
                    Err(failure) => Err(failure),
                };
                match exists {
                    Ok(true) => mine.nodes.expire_in(claim.token, claim.ttl),
                    Ok(false) | Err(Failure::SessionExpired) => {
                        mine.leave(node);
                        return Ok(false);
                    }
                    Err(_) => {}
                }
                exists
            });
            Ok(join_all(looks).await)
        });
        let renewed = renewed.await?.into_iter();
        Ok(renewed.map(|it| it.map_err(Failure::into_error)).collect())
    }

    /// A number that is drawn while the claim has the lock is greater than all that were drawn before.
    async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let Some(node) = self.claims.nodes.get(claim.token) else {
            return Ok(None);
        };
        let claims = self.claims.clone();
        self.perform(deadline, async move {
            let drawn = claims.prove(&node.session, deadline).await?;
            Ok(exists(&node, deadline).await?.then_some(drawn))
        })
        .await
    }

    /// The holder keeps its place; its data tells the others that it shares the lock.
    async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let nodes = &self.claims.nodes;
        let Some(node) = nodes.get(claim.token).or_else(|| nodes.get(to)) else {
            return Ok(None);
        };
        let (claims, ttl) = (self.claims.clone(), claim.ttl);
        self.perform(deadline, async move {
            let Some(path) = node.known_path() else {
                return Ok(None);
            };
            let data = to.encode(&mut [0; 37]).to_owned();
            let changed = node
                .session
                .request(Request::SetData { path, data }, deadline);
            match changed.await {
                Ok(Reply::Changed(_)) if claims.nodes.rename(&node, to) => {
                    claims.nodes.expire_in(to, ttl);
                    Ok(Some(ttl))
                }
                Ok(Reply::Changed(_)) | Err(Failure::NoNode | Failure::SessionExpired) => Ok(None),
                Ok(_) => Err(Failure::Malformed),
                Err(failure) => Err(failure),
            }
        })
        .await
    }
}

/// Returns `true` if the node exists: its claim has the lock if it had it before.
async fn exists(node: &Node, deadline: Instant) -> Result<bool, Failure> {
    if node.is_leaving() {
        return Ok(false);
    }
    let Some(path) = node.known_path() else {
        return Ok(false);
    };
    done(
        node.session
            .request(Request::Exists { path }, deadline)
            .await,
    )
}

impl Engine for ZooKeeperEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        _: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(self.acquire(attempt, deadline))
    }

    // A session carries requests out in order, so none can be late.
    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        Box::pin(self.enqueue(claim, deadline))
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        _: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.leave(claim, deadline))
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(self.leave(claim, deadline))
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        let node = self.claims.nodes.get(release.claim.token);
        if let Some(node) = &node {
            self.claims.leave(node);
        }
        let (io, limit) = (self.claims.io, self.command_timeout);
        io.spawn_detached(async move {
            let Some(node) = node else {
                return release.confirm(false);
            };
            match io.timeout_at(deadline_in(limit), node.until_gone()).await {
                Ok(was_owner) => release.confirm(was_owner),
                Err(_) => release.hand_over(true),
            }
        });
        Ok(())
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(self.renew(claims, deadline))
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(self.fencing_token(claim, deadline))
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(self.downgrade(claim, to, deadline))
    }

    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        let now = self.clock.now();
        let node = self.claims.nodes.get(token);
        let session = node.and_then(|node| node.session.lease());
        let session = session.unwrap_or_else(|| Lease::without_margin(now, Duration::ZERO));
        let own = Lease::from_request(sent, duration);
        match session.remaining(now) < own.remaining(now) {
            true => session,
            false => own,
        }
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > MAX_KEY {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "it is longer than 8,192 bytes, and ZooKeeper keeps all keys in memory; use a hash of it",
            });
        }
        if options.ttl > self.claims.sessions.limits().longest_ttl() {
            return Err(LockError::InvalidOption {
                option: "ttl",
                reason: "it is longer than the ZooKeeper ensemble lets a session live without a sign of \
                         life; lower it, or raise `maxSessionTimeout` on all servers",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::InvalidOption {
                option: "replicas",
                reason: "ZooKeeper has a majority of its servers store every lock; set it to 0",
            });
        }
        Ok(())
    }

    fn inspect(
        &self,
        ttl: Duration,
        _: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(self.inspect_servers(ttl))
    }

    fn drain(&self) -> EngineFuture<'_, ()> {
        let (claims, limit) = (self.claims.clone(), deadline_in(self.command_timeout));
        let drained = self.perform(limit, async move {
            let pause = || crate::util::time::sleep_until(deadline_in(Duration::from_millis(2)));
            while !claims.is_idle() {
                pause().await;
            }
            let nodes = &claims.nodes;
            let closed = claims
                .sessions
                .close_if(|session| nodes.are_none_of(session));
            while !closed.iter().all(|session| session.is_ended()) {
                pause().await;
            }
            Ok(())
        });
        Box::pin(async { drained.await.or(Ok(())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::timeouts::Timeouts;
    use crate::engine::zookeeper::address::Address;
    use crate::engine::zookeeper::net::session::Surroundings;
    use crate::engine::zookeeper::sessions::{SessionLimits, Sessions};
    use crate::util::io_thread::IoThread;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// Returns an engine without servers.
    fn engine() -> ZooKeeperEngine {
        let config = Config::new("zookeeper://127.0.0.1:1");
        let (io, clock) = (IoThread::start().unwrap(), Clock::manual());
        let surroundings = Surroundings {
            io,
            address: Address::parse("zookeeper://127.0.0.1:1", &config).unwrap(),
            timeouts: Timeouts::of(&config),
            clock: clock.clone(),
            handler: Arc::new(|_| {}),
            tick: Duration::from_secs(2),
        };
        let limits = SessionLimits {
            shortest: Duration::from_secs(4),
            longest: Duration::from_secs(40),
        };
        ZooKeeperEngine {
            claims: Claims::new(Sessions::new(surroundings, io, limits), io, &config),
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
