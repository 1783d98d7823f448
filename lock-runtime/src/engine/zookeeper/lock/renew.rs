//! Renewing claims: their sessions are proven to live, and their nodes to exist.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::lock::look::exists;
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::wire::error::Failure;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl ZooKeeperEngine {
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let (mine, clock) = (self.claims.clone(), self.clock.clone());
        let claims = claims.to_vec();
        let renewed = self.claims.run(deadline, async move {
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
}
