//! The claims of this process, and their ends.
//!
//! What changes the line runs in tasks of the I/O thread, to its end, whoever still waits for it.

use crate::config::Config;
use crate::engine::common::claim_table::{ClaimTable, end_expired};
use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::zookeeper::conn::session::SessionContext;
use crate::engine::zookeeper::conn::sessions::Sessions;
use crate::engine::zookeeper::keys::Paths;
use crate::engine::zookeeper::lock::containers::Containers;
use crate::engine::zookeeper::lock::node::{Node, Presence};
use crate::engine::zookeeper::wire::error::Failure;
use crate::util::clock::Timestamp;
use crate::util::count::Count;
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long a task may be late for its own deadline, and still say more than that it has passed.
const GRACE: Duration = Duration::from_millis(20);

/// The claims of this process.
pub(crate) struct Claims {
    pub(crate) sessions: Sessions,
    pub(crate) nodes: Arc<ClaimTable<Arc<Node>>>,
    pub(crate) io: IoThread,
    pub(crate) paths: Paths,
    pub(crate) containers: Containers,
    /// The path below which each session has a node of its own.
    pub(crate) proofs: String,
    /// The time by the clock of the leader, and when it said that.
    pub(crate) leader_time: Mutex<Option<(Duration, Timestamp)>>,
    pub(crate) command_timeout: Duration,
    /// The nodes that are being deleted.
    pub(crate) leaving: Arc<Count>,
    /// Becomes `true` when no session is to begin again that no lock needs.
    closed: AtomicBool,
}

impl Claims {
    pub(crate) fn new(sessions: Sessions, config: &Config) -> Arc<Claims> {
        let SessionContext { address, clock, .. } = &*sessions.context;
        let nodes = Arc::new(ClaimTable::new(clock.clone()));
        let paths = Paths::new(&address.root, &config.prefix);
        let proofs = paths.sessions();
        let claims = Arc::new(Claims {
            io: sessions.context.io,
            sessions,
            nodes: nodes.clone(),
            paths,
            containers: Containers::default(),
            proofs,
            leader_time: Mutex::default(),
            command_timeout: config.command_timeout,
            leaving: Arc::new(Count::new()),
            closed: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&claims);
        claims
            .io
            .spawn_detached(end_expired(nodes, weak, |claims, token| {
                if let Some(node) = claims.nodes.get(token) {
                    claims.leave(&node);
                }
            }));
        claims
    }

    /// No session begins again that no lock needs.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Runs work on the I/O thread to its end, and returns its result if that comes by the deadline.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, EngineError> {
        let done = self.io.run_to_end(deadline + GRACE, work).await;
        done.map_or_else(
            || Err(EngineError::no_reply()),
            |done| done.map_err(Failure::into_error),
        )
    }

    /// Returns the node of the claim, a new one if it has none.
    pub(crate) fn node(&self, claim: &Claim) -> Arc<Node> {
        // One that was requested is not made again in another session.
        let counts =
            |node: &Arc<Node>| !node.session.is_ended() || node.presence() != Presence::Absent;
        let node = match self.nodes.get(claim.token) {
            Some(node) if counts(&node) => node,
            refused => {
                let lock = self.paths.lock(&claim.name);
                let session = self.sessions.of(claim.ttl);
                let new = || Arc::new(Node::new(claim.token, lock, session));
                // It looks at no node's state, which may be locked by one who wants the table.
                let is_another = |node: &Arc<Node>| {
                    refused
                        .as_ref()
                        .is_none_or(|refused| !Arc::ptr_eq(refused, node))
                };
                self.nodes.get_or_insert(claim.token, is_another, new)
            }
        };
        self.nodes.expire_in(claim.token, WAITER_TTL);
        node
    }
}
