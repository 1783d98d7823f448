//! Renewing claims: their sessions are proven to live, and their nodes to exist.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::lock::read::exists;
use crate::engine::zookeeper::wire::error::Failure;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A claim to renew, with its node if it has one.
type Renewal = (Claim, Option<Arc<Node>>);

/// A session, and how its proof went.
type Proven = (Arc<Session>, Result<(), Failure>);

impl ZooKeeperEngine {
    /// Returns for each claim whether it has been renewed, or why that is unknown.
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let mine = self.claims.clone();
        let with_node = |claim: &Claim| (claim.clone(), mine.nodes.get(claim.token));
        let renewals: Vec<Renewal> = claims.iter().map(with_node).collect();
        let renewed = self.claims.run(deadline, async move {
            let proofs = mine.prove_sessions_of(&renewals, deadline).await;
            let renewed = renewals.iter().map(async |(claim, node)| match node {
                Some(node) => mine.renew(claim, node, &proofs, deadline).await,
                None => Ok(false),
            });
            Ok(join_all(renewed).await)
        });
        let renewed = renewed.await?.into_iter();
        Ok(renewed.map(|it| it.map_err(Failure::into_error)).collect())
    }
}

impl Claims {
    /// Proves each session for the longest ttl of the claims in it, unless it is proven for that time.
    async fn prove_sessions_of(&self, renewals: &[Renewal], deadline: Instant) -> Vec<Proven> {
        let mut sessions: Vec<(Arc<Session>, Duration)> = Vec::new();
        for (claim, node) in renewals {
            let Some(Node { session, .. }) = node.as_deref() else {
                continue;
            };
            match sessions.iter_mut().find(|(it, _)| Arc::ptr_eq(it, session)) {
                Some((_, ttl)) => *ttl = claim.ttl.max(*ttl),
                None => sessions.push((session.clone(), claim.ttl)),
            }
        }
        let now = self.sessions.context.clock.now();
        let proofs = sessions.into_iter().map(async |(session, ttl)| {
            let proven = session.lease().map(|lease| lease.remaining(now));
            let proof = match proven.is_some_and(|proven| proven >= ttl) {
                true => Ok(()),
                false => self.prove(&session, deadline).await.map(drop),
            };
            (session, proof)
        });
        join_all(proofs).await
    }

    /// Renews the claim if its session is proven and its node exists. Gives up one that has ended.
    async fn renew(
        self: &Arc<Self>,
        claim: &Claim,
        node: &Arc<Node>,
        proofs: &[Proven],
        deadline: Instant,
    ) -> Result<bool, Failure> {
        let mut proofs = proofs.iter();
        let proof = proofs.find(|(session, _)| Arc::ptr_eq(session, &node.session));
        let exists = match proof {
            Some((_, Err(failure))) => Err(failure.clone()),
            _ => exists(node, deadline).await,
        };
        match exists {
            Ok(true) => self.nodes.expire_in(claim.token, claim.ttl),
            Ok(false) | Err(Failure::SessionExpired) => {
                self.leave(node);
                return Ok(false);
            }
            Err(_) => {}
        }
        exists
    }
}
