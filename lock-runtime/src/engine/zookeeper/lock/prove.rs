//! Proving that a session lives.

use crate::engine::zookeeper::conn::session::{Session, SessionContext};
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::containers::create_containers;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use crate::util::time::{deadline_in, now, sleep_until};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a write is repeated because nodes were created or deleted meanwhile.
const MAX_WRITES: usize = 20;

/// How long a claim at the front of its line may wait until it asks again, and somewhat more.
const AHEAD: Duration = Duration::from_secs(1);

impl Claims {
    /// Waits until the session is proven for a good part of that ttl.
    pub(crate) async fn secure(
        &self,
        session: &Session,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let SessionContext { clock, tick, .. } = &*self.sessions.context;
        loop {
            let proven = session.lease().map(|lease| lease.remaining(clock.now()));
            if proven.is_some_and(|proven| proven >= ttl / 3 * 2) {
                return Ok(());
            }
            self.prove(session, deadline).await?;
            let proven = session.lease().map(|lease| lease.remaining(clock.now()));
            if proven.is_some_and(|proven| proven >= ttl / 3) || now() >= deadline {
                return Ok(());
            }
            // A write proves a contact that is a tick old.
            sleep_until(deadline_in(*tick / 4).min(deadline)).await;
        }
    }

    /// Proves the session in the background if a claim that is granted a little later would have to.
    pub(crate) fn secure_ahead(self: &Arc<Self>, session: &Arc<Session>, ttl: Duration) {
        let now = self.sessions.context.clock.now();
        let proven = session.lease().map(|lease| lease.remaining(now));
        if proven.is_none_or(|proven| proven >= ttl / 3 * 2 + AHEAD) {
            return;
        }
        let (this, session) = (self.clone(), session.clone());
        self.io.spawn_detached(async move {
            // If it fails, the grant needs a proof of its own.
            let _ = this.prove(&session, deadline_in(AHEAD)).await;
        });
    }

    /// Proves that the session lives: a majority has agreed to a write. Returns the id of the transaction, which is
    /// greater than that of every earlier one.
    pub(crate) async fn prove(&self, session: &Session, deadline: Instant) -> Result<u64, Failure> {
        let path = format!("{}/{}", self.proofs, session.identity);
        let write = Request::SetData {
            path: path.clone(),
            data: String::new(),
        };
        for _ in 0..MAX_WRITES {
            match session.request(write.clone(), deadline).await {
                Ok(Reply::Changed { zxid, .. }) => return Ok(zxid),
                Ok(_) => return Err(Failure::Malformed),
                Err(Failure::NoNode) => {}
                Err(failure) => return Err(failure),
            }
            let create = Request::Create {
                path: path.clone(),
                kind: NodeKind::Ephemeral,
            };
            match session.request(create, deadline).await {
                Ok(_) | Err(Failure::Exists) => {}
                Err(Failure::NoNode) => create_containers(session, &self.proofs, deadline).await?,
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::NoNode)
    }
}
