//! Proving that a session lives.

use crate::engine::zookeeper::conn::session::{Session, SessionContext};
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::containers::create_containers;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::{Reply, Stat};
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use crate::util::time::{deadline_in, now, sleep_until};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How many times a write is repeated because nodes were created or deleted meanwhile.
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

    /// Returns the path of the node that proves a session.
    pub(crate) fn proof_of(&self, session: &Session) -> String {
        format!("{}/{}", self.proofs, session.identity)
    }

    /// Returns the time by the clock of the leader, since the beginning of 1970, as the last proof had it.
    pub(crate) fn leader_time(&self) -> Option<Duration> {
        let (time, at) = (*self.leader_time.lock())?;
        Some(time + self.sessions.context.clock.now().elapsed_since(at))
    }

    /// Records what the server says of a write now.
    pub(crate) fn on_written(&self, stat: &Stat) {
        let at = self.sessions.context.clock.now();
        *self.leader_time.lock() = Some((stat.changed_at, at));
    }

    /// Proves that the session lives: a majority has agreed to a write. Returns what the server says of that.
    /// The id of its transaction is greater than that of every earlier one, and all of those are seen by what
    /// the session reads next.
    pub(crate) async fn prove(
        &self,
        session: &Session,
        deadline: Instant,
    ) -> Result<Stat, Failure> {
        let path = self.proof_of(session);
        for _ in 0..MAX_WRITES {
            match session
                .request(Request::touch(path.clone()), deadline)
                .await
            {
                Ok(Reply::Changed(stat)) => {
                    self.on_written(&stat);
                    return Ok(stat);
                }
                Ok(_) => return Err(Failure::Malformed),
                Err(Failure::NoNode) => {}
                Err(failure) => return Err(failure),
            }
            let create = Request::create(path.clone(), NodeKind::Ephemeral);
            match session.request(create, deadline).await {
                Ok(_) | Err(Failure::Exists) => {}
                Err(Failure::NoNode) => create_containers(session, &self.proofs, deadline).await?,
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::NoNode)
    }
}
