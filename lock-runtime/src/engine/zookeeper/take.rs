//! Taking a lock from its holder for good.

use crate::engine::common::line::Place;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::operations::Taken;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::look::{LineWatches, MAX_LOOKS, look};
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::Request;
use crate::limit::Limit;
use tokio::time::Instant;

impl ZooKeeperEngine {
    /// Deletes the claim's node in a transaction whose id is the fencing token. A claim that waits loses its
    /// place. No claim whose node is gone enters the line again.
    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        deadline: Instant,
    ) -> Result<Taken, EngineError> {
        let (claims, lock) = (self.claims.clone(), self.claims.paths.lock(name));
        let (session, token) = (claims.sessions.of(self.default_ttl), token.to_owned());
        let taken = async move {
            for _ in 0..MAX_LOOKS {
                // What is read next is not older than this.
                let proof = claims.prove(&session, deadline).await?;
                if proof.zxid < at_least {
                    return Ok(None);
                }
                let looked = look(
                    &session,
                    &lock,
                    Limit::UNLIMITED,
                    LineWatches::None,
                    deadline,
                );
                let missing = Taken {
                    held: false,
                    pinned: false,
                    fencing_token: proof.zxid,
                };
                let Some(line) = looked.await? else {
                    return Ok(Some(missing));
                };
                let is_its = |child: &Child| *child.text() == *token;
                let Some(child) = line.entries().iter().find(|child| is_its(child)) else {
                    return Ok(Some(missing));
                };
                let path = format!("{lock}/{}", child.name);
                match claims.delete(&session, path, deadline).await {
                    Ok(fencing_token) => {
                        return Ok(Some(Taken {
                            held: line.place_of(is_its) == Some(Place::Holds),
                            fencing_token,
                            ..missing
                        }));
                    }
                    // One of the two nodes was deleted meanwhile.
                    Err(Failure::NoNode) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Err(Failure::NoNode)
        };
        self.claims.run(deadline, taken).await?.ok_or_else(|| {
            let words = "the ids of ZooKeeper's transactions are less than the fencing tokens in use; it can't raise them";
            EngineError::new(EngineErrorKind::Rejected, words)
        })
    }
}

impl Claims {
    /// Deletes a node, together with a write that proves the session. Returns the id of the transaction.
    async fn delete(
        &self,
        session: &Session,
        path: String,
        deadline: Instant,
    ) -> Result<u64, Failure> {
        let proof = Request::touch(self.proof_of(session));
        let requests = vec![proof, Request::Delete { path }];
        match session
            .request(Request::Together(requests), deadline)
            .await?
        {
            Reply::Together(replies) => match replies.first() {
                Some(Reply::Changed(stat)) => Ok(stat.zxid),
                _ => Err(Failure::Malformed),
            },
            _ => Err(Failure::Malformed),
        }
    }
}
