//! Downgrading a claim: the data of its node says that it shares the lock, and it keeps its place.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::Request;
use std::time::Duration;
use tokio::time::Instant;

impl ZooKeeperEngine {
    /// The holder keeps its place; its data says to the others that it shares the lock.
    pub(crate) async fn downgrade(
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
        self.claims
            .run(deadline, async move {
                let Some(path) = node.known_path() else {
                    return Ok(None);
                };
                let write = Request::SetData {
                    path,
                    data: to.encode(&mut [0; 37]).into(),
                    version: None,
                };
                match node.session.request(write, deadline).await {
                    Ok(Reply::Changed(_)) if node.rename(&claims.nodes, to) => {
                        claims.nodes.expire_in(to, ttl);
                        Ok(Some(ttl))
                    }
                    Ok(Reply::Changed(_)) | Err(Failure::NoNode | Failure::SessionExpired) => {
                        Ok(None)
                    }
                    Ok(_) => Err(Failure::Malformed),
                    Err(failure) => Err(failure),
                }
            })
            .await
    }
}
