//! Recalling locks from processes that may keep them. A holder watches the line of its lock: another
//! process's claim recalls it. A call for several keys leaves a text for those that it does not claim yet.

use crate::engine::common::line::{Entry, Line};
use crate::engine::error::EngineError;
use crate::engine::event::EngineEvent;
use crate::engine::recall::{LAST_REPEAT, REPEAT, Recall};
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::engine::zookeeper::asks::identified;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::lock::read::claims_of;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::request::NodeKind;
use crate::process::ProcessId;
use crate::util::backoff::Backoff;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, sleep_until};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

impl ZooKeeperEngine {
    /// A process that does not listen has no node.
    pub(crate) async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let path = self.claims.paths.recalls(from);
        let texts = recalls.iter().map(identified).collect();
        self.leave_for_others(path, false, texts, deadline).await
    }

    /// Returns `true` if recalls reach this process now. Begins to listen.
    pub(crate) fn listens_for_recalls(&self) -> bool {
        let hears = self.recalls.get_or_init(|| {
            let path = self.claims.paths.recalls(self.process);
            self.hear(path, NodeKind::Ephemeral, |text| {
                Recall::parse(text).map(EngineEvent::Recalled)
            })
        });
        hears.load(Ordering::Relaxed)
    }
}

impl Claims {
    /// Reports, as long as the claim holds a lock that this process may keep, that another process is in the
    /// line.
    pub(crate) fn watch_for_others(&self, name: &Arc<str>, node: &Arc<Node>) {
        if node.token().is_recallable() && node.begin_to_watch_for_others() {
            let report = report_others(name.clone(), node.clone(), self.io, self.command_timeout);
            self.io.spawn_detached(report);
        }
    }
}

async fn report_others(name: Arc<str>, node: Arc<Node>, io: IoThread, timeout: Duration) {
    let token = node.token();
    let recall = || {
        let (name, token) = (name.clone(), Some(token));
        (node.session.context.handler)(EngineEvent::Recalled(Recall { name, token }));
    };
    let is_other = |claim: &Child| {
        let other = claim.token();
        other.is_none_or(|other| other.process() != token.process())
    };
    // The process may forget a recall that comes before the reply to the acquisition.
    let mut repeats = Backoff::new(REPEAT, LAST_REPEAT);
    let mut retries = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    while !node.is_leaving() && !node.session.is_ended() && node.token() == token {
        let (watcher, fired) = Watcher::with_alarm();
        let deadline = deadline_in(timeout);
        let line = match claims_of(&node.session, &node.lock, Some(watcher), deadline).await {
            Ok(line) => line,
            // What may not be watched is not kept.
            Err(Failure::NoPermission) => return recall(),
            Err(_) => {
                sleep_until(deadline_in(retries.pause())).await;
                continue;
            }
        };
        let claims = line.as_ref().map_or(&[][..], Line::entries);
        if !claims.iter().any(|it| node.is(it)) {
            return;
        }
        if claims.iter().any(is_other) {
            recall();
            let again = deadline_in(repeats.pause());
            let _ = node.ending.finished(io, again).await;
        } else {
            // Also when the watch ends with its connection or its session.
            let _ = fired.await;
        }
    }
}
