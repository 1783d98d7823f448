//! Asking all processes that listen, by the data of a node on which each has a watch.
//!
//! A watch fires once, and may stand for several changes. So the node keeps the last asks, each behind an
//! identity of its own, and a process that is notified reads all of them, with the next watch: those that it
//! has not read before are new.

use crate::engine::common::batches::{Request, deadline_of};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EngineEvent;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::read::data;
use crate::engine::zookeeper::recent::{add, create, texts};
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::request::NodeKind;
use crate::util::backoff::Backoff;
use crate::util::time::{deadline_in, sleep_until};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
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
        let path = self.claims.paths.asks();
        self.leave_for_others(path, true, vec![identified(text)], deadline)
            .await
    }

    /// Adds texts to a node. Those that other calls add meanwhile are written with them. `creates`: the node
    /// is made if there is none.
    pub(crate) async fn leave_for_others(
        &self,
        path: String,
        creates: bool,
        texts: Vec<String>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let (claims, io) = (self.claims.clone(), self.claims.io);
        let session = claims.sessions.of(self.default_ttl);
        let path: Arc<str> = path.into();
        let of = path.clone();
        let write = move |batch| claims.write((session, of, creates), batch);
        let request = self.texts.request(io, &path, texts, deadline, write);
        request.await
    }

    pub(crate) fn begin_to_listen(&self) {
        self.asks.get_or_init(|| {
            let path = self.claims.paths.asks();
            self.hear(path, NodeKind::Persistent, |text| {
                Some(EngineEvent::Asked(text.into()))
            })
        });
    }

    /// Delivers what others write to that node, in the session of the locks with the default ttl. Returns
    /// whether it is heard.
    pub(crate) fn hear(&self, path: String, kind: NodeKind, event: Event) -> Arc<AtomicBool> {
        let heard = Arc::<AtomicBool>::default();
        let node = Heard {
            path,
            kind,
            event,
            ttl: self.default_ttl,
            is_heard: heard.clone(),
        };
        let claims = Arc::downgrade(&self.claims);
        self.claims.io.spawn_detached(listen(claims, node));
        heard
    }
}

impl Claims {
    /// Writes what fits at once, since a node keeps no more, and what is left after it.
    async fn write(
        self: Arc<Self>,
        (session, path, creates): (Arc<Session>, Arc<str>, bool),
        mut batch: Vec<Request<Vec<String>, ()>>,
    ) {
        let deadline = deadline_of(&batch);
        batch.retain(Request::is_awaited);
        let mut left: Vec<_> = batch.iter().flat_map(|it| it.what.clone()).collect();
        let claims = self.clone();
        let written = self.run(deadline, async move {
            while !left.is_empty() {
                let mut length = 0;
                let fit = left.iter().take_while(|text| {
                    length += text.len();
                    length <= 2 * MAX_ASK
                });
                let texts: Vec<_> = left.drain(..fit.count().max(1)).collect();
                let written = match add(&session, &path, &texts, deadline).await {
                    Err(Failure::NoNode) if creates => {
                        create(&session, &path, NodeKind::Persistent, deadline).await?;
                        add(&session, &path, &texts, deadline).await?
                    }
                    written => written?,
                };
                claims.on_written(&written);
            }
            Ok(())
        });
        let written = written.await;
        for request in batch {
            request.reply(written.clone());
        }
    }
}

/// Returns the text behind an identity of its own.
pub(crate) fn identified(text: impl fmt::Display) -> String {
    format!("{} {text}", Uuid::new_v4().simple())
}

/// Returns the event of a text.
pub(crate) type Event = fn(&str) -> Option<EngineEvent>;

/// A node that this process listens to.
struct Heard {
    path: String,
    kind: NodeKind,
    event: Event,
    ttl: Duration,
    is_heard: Arc<AtomicBool>,
}

/// Delivers what others write until there are no claims any more. What was written before is not delivered.
async fn listen(claims: Weak<Claims>, node: Heard) {
    let mut known: Option<Vec<String>> = None;
    let pauses = || Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let mut backoff = pauses();
    while let Some(claims) = claims.upgrade().filter(|claims| !claims.is_closed()) {
        let session = claims.sessions.of(node.ttl);
        let deadline = deadline_in(claims.command_timeout);
        drop(claims);
        let (watcher, fired) = Watcher::with_alarm();
        let read = match data(&session, node.path.clone(), Some(watcher), deadline).await {
            Ok(None) => match create(&session, &node.path, node.kind, deadline).await {
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
        node.is_heard.store(read.is_ok(), Ordering::Relaxed);
        match read {
            Ok(data) => {
                backoff = pauses();
                let texts = texts(&data);
                if let Some(known) = known {
                    let new = texts.iter().filter(|text| !known.contains(text));
                    let new = new.filter_map(|text| text.split_once(' '));
                    let new = new.filter(|(_, text)| text.len() <= MAX_ASK);
                    let events = new.filter_map(|(_, text)| (node.event)(text));
                    events.for_each(|event| (session.context.handler)(event));
                }
                known = Some(texts);
                // Also when the watch ends with its connection or its session.
                let _ = fired.await;
            }
            Err(Failure::NoPermission) => sleep_until(deadline_in(REFUSED)).await,
            Err(_) => sleep_until(deadline_in(backoff.pause())).await,
        }
    }
}
