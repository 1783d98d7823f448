//! The report of this process: a node in the present session, and in each later one.

use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::containers::create_containers;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, sleep_until};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How many times a report is stored again because nodes were created or deleted meanwhile.
const MAX_WRITES: usize = 20;

/// The report of this process. The mutex makes sure that the last report is stored last.
#[derive(Default)]
pub(crate) struct OwnReport(tokio::sync::Mutex<Option<Report>>);

pub(crate) struct Report {
    pub(crate) path: String,
    pub(crate) text: Arc<str>,
}

impl OwnReport {
    /// Stores a report in the session of the locks with that ttl, and from then on in each that follows.
    pub(crate) async fn store(
        self: Arc<Self>,
        report: Report,
        claims: &Arc<Claims>,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut last = self.0.lock().await;
        let is_first = last.replace(report).is_none();
        let session = claims.sessions.of(ttl);
        let stored = store(claims, &session, last.as_ref(), deadline).await;
        drop(last);
        if is_first {
            let keeper = self.keep(Arc::downgrade(claims), ttl, session);
            claims.io.spawn_detached(keeper);
        }
        stored
    }

    /// Stores the last report in each later session, until there are no claims any more.
    async fn keep(self: Arc<Self>, claims: Weak<Claims>, ttl: Duration, mut session: Arc<Session>) {
        let pauses = || Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        let (mut is_stored, mut backoff) = (true, pauses());
        loop {
            match is_stored {
                true => session.ended().await,
                false => sleep_until(deadline_in(backoff.pause())).await,
            }
            let Some(claims) = claims.upgrade().filter(|claims| !claims.is_closed()) else {
                return;
            };
            session = claims.sessions.of(ttl);
            let deadline = deadline_in(claims.command_timeout);
            let last = self.0.lock().await;
            let stored = store(&claims, &session, last.as_ref(), deadline).await;
            // One that is refused is not stored before the next session.
            is_stored =
                stored.map_or_else(|failure| !failure.into_error().is_retryable(), |()| true);
            if is_stored {
                backoff = pauses();
            }
        }
    }
}

/// Stores a report in that session, in place of that of an earlier one.
async fn store(
    claims: &Claims,
    session: &Session,
    report: Option<&Report>,
    deadline: Instant,
) -> Result<(), Failure> {
    let Some(Report { path, text }) = report else {
        return Ok(());
    };
    let delete = Request::Delete { path: path.clone() };
    let create = Request::Create {
        path: path.clone(),
        kind: NodeKind::Ephemeral,
        data: text.as_bytes().to_vec(),
    };
    for _ in 0..MAX_WRITES {
        let replace = Request::Together(vec![delete.clone(), create.clone()]);
        match session.request(replace, deadline).await {
            Err(Failure::NoNode) => {}
            replaced => return replaced.map(drop),
        }
        match session.request(create.clone(), deadline).await {
            Err(Failure::NoNode) => {
                create_containers(session, &claims.paths.processes(), deadline).await?;
            }
            Err(Failure::Exists) => {}
            created => return created.map(drop),
        }
    }
    Err(Failure::NoNode)
}
