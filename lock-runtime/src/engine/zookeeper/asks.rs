//! Asking all processes that listen, by the data of a node on which each has a watch.
//!
//! A watch fires once, and may stand for several changes. So the node keeps the last asks, each behind an
//! identity of its own, and a process that is notified reads all of them, with the next watch: those that it
//! has not read before are new.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EngineEvent;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::read::data;
use crate::engine::zookeeper::recent::{add, create, texts};
use crate::engine::zookeeper::wire::error::Failure;
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, sleep_until};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// The longest ask: some must be kept beside it.
const MAX_ASK: usize = 4096;

/// When a process that may not listen tries again.
const REFUSED: Duration = Duration::from_secs(30);

impl ZooKeeperEngine {
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        if text.len() > MAX_ASK {
            let words = format!("what is asked is longer than {MAX_ASK} bytes");
            return Err(EngineError::new(EngineErrorKind::Rejected, words));
        }
        let ask = format!("{} {text}", Uuid::new_v4().simple());
        let claims = self.claims.clone();
        let session = claims.sessions.of(self.default_ttl);
        let asked = async move {
            let path = claims.paths.asks();
            let written = add(&session, &path, &ask, deadline).await?;
            claims.on_written(&written);
            Ok(())
        };
        self.claims.run(deadline, asked).await
    }

    pub(crate) fn begin_to_listen(&self) {
        if !self.listens.swap(true, Ordering::AcqRel) {
            let claims = Arc::downgrade(&self.claims);
            let listener = listen(claims, self.default_ttl);
            self.claims.io.spawn_detached(listener);
        }
    }
}

/// Delivers what others ask until there are no claims any more, in the session of the locks with that ttl.
/// What was asked before is not delivered.
async fn listen(claims: Weak<Claims>, ttl: Duration) {
    let mut known: Option<Vec<String>> = None;
    let pauses = || Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let mut backoff = pauses();
    while let Some(claims) = claims.upgrade().filter(|claims| !claims.is_closed()) {
        let (path, session) = (claims.paths.asks(), claims.sessions.of(ttl));
        let deadline = deadline_in(claims.command_timeout);
        drop(claims);
        let (watcher, fired) = Watcher::with_alarm();
        let read = match data(&session, path.clone(), Some(watcher), deadline).await {
            Ok(None) => match create(&session, &path, deadline).await {
                // All that it will have is new.
                Ok(()) => {
                    known.get_or_insert_default();
                    continue;
                }
                Err(failure) => Err(failure),
            },
            Ok(Some(data)) => Ok(data),
            Err(failure) => Err(failure),
        };
        match read {
            Ok(data) => {
                backoff = pauses();
                let asks = texts(&data);
                if let Some(known) = known {
                    let new = asks.iter().filter(|ask| !known.contains(ask));
                    let new = new.filter_map(|ask| ask.split_once(' '));
                    for (_, text) in new.filter(|(_, text)| text.len() <= MAX_ASK) {
                        (session.context.handler)(EngineEvent::Asked(text.into()));
                    }
                }
                known = Some(asks);
                // Also when the watch ends with its connection or its session.
                let _ = fired.await;
            }
            Err(Failure::NoPermission) => sleep_until(deadline_in(REFUSED)).await,
            Err(_) => sleep_until(deadline_in(backoff.pause())).await,
        }
    }
}
