//! What a claim that holds its lock may ask: to be renewed, a number, or to share the lock.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::net::reply::Reply;
use crate::engine::zookeeper::net::request::Request;
use crate::engine::zookeeper::net::session::{Session, done};
use crate::engine::zookeeper::node::Node;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl ZooKeeperEngine {
    pub(super) async fn renew(
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
    pub(super) async fn fencing_token(
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
    pub(super) async fn downgrade(
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
                Ok(Reply::Changed { .. }) if node.rename(&claims.nodes, to) => {
                    claims.nodes.expire_in(to, ttl);
                    Ok(Some(ttl))
                }
                Ok(Reply::Changed { .. }) | Err(Failure::NoNode | Failure::SessionExpired) => {
                    Ok(None)
                }
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
