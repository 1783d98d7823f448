//! The claims of this process, and their ends.
//!
//! What changes the line runs in tasks of the I/O thread, to its end, whoever still waits for it.

use crate::config::Config;
use crate::engine::common::claim_table::{ClaimTable, end_expired};
use crate::engine::error::EngineError;
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::token::Token;
use crate::engine::zookeeper::conn::session::SessionContext;
use crate::engine::zookeeper::conn::sessions::Sessions;
use crate::engine::zookeeper::keys::Paths;
use crate::engine::zookeeper::lock::containers::Containers;
use crate::engine::zookeeper::lock::node::{Node, Presence};
use crate::engine::zookeeper::wire::error::Failure;
use crate::util::clock::Timestamp;
use crate::util::count::Count;
use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::thread_end::PendingWork;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// For how long a place in the line is kept for a caller that is about to wait.
const RESERVATION: Duration = Duration::from_millis(100);

/// How long a task may be late for its own deadline, and still say more than that it has passed.
const GRACE: Duration = Duration::from_millis(20);

/// The claims of this process.
pub(crate) struct Claims {
    pub(crate) sessions: Sessions,
    pub(crate) nodes: Arc<ClaimTable<Arc<Node>>>,
    /// The token in the name of a claim's node, if it is not that of the claim.
    node_tokens: Mutex<HashMap<Token, Token>>,
    /// The nodes whose callers are about to wait under another token.
    reserved: Mutex<Vec<(Arc<Node>, PendingWork)>>,
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
    pub(crate) fn new(sessions: Sessions, io: IoThread, config: &Config) -> Arc<Claims> {
        let SessionContext { address, clock, .. } = &*sessions.context;
        let nodes = Arc::new(ClaimTable::new(clock.clone()));
        let paths = Paths::new(&address.root, &config.prefix);
        let proofs = paths.sessions();
        let claims = Arc::new(Claims {
            sessions,
            nodes: nodes.clone(),
            node_tokens: Mutex::default(),
            reserved: Mutex::default(),
            io,
            paths,
            containers: Containers::default(),
            proofs,
            leader_time: Mutex::default(),
            command_timeout: config.command_timeout,
            leaving: Arc::new(Count::new()),
            closed: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&claims);
        io.spawn_detached(end_expired(nodes, weak, |claims, token| {
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

    /// Returns the node of the claim. If it has none, it takes over a place that is reserved, or gets a new
    /// node.
    pub(crate) fn node(self: &Arc<Self>, claim: &Claim) -> Arc<Node> {
        // One that was requested is not made again in another session.
        let counts =
            |node: &Arc<Node>| !node.session.is_ended() || node.presence() != Presence::Absent;
        let known = self.known(claim.token).filter(counts);
        let node = known.unwrap_or_else(|| {
            let lock = self.paths.lock(&claim.name);
            let session = self.sessions.of(claim.ttl);
            let reserved = self.take_reserved(|node| {
                node.lock == lock
                    && node.token().limit() == claim.token.limit()
                    && Arc::ptr_eq(&node.session, &session)
            });
            let reserved = reserved.map(|(node, _)| node);
            let reserved = reserved.filter(|node| node.rename(&self.nodes, claim.token));
            if let Some(node) = &reserved {
                node.set_waits_as(claim.token);
                self.node_tokens.lock().insert(claim.token, node.named);
            }
            let new = || Arc::new(Node::new(claim.token, lock, session));
            reserved.unwrap_or_else(|| self.nodes.get_or_insert(claim.token, counts, new))
        });
        self.nodes.expire_in(claim.token, WAITER_TTL);
        node
    }

    /// Returns the node of the claim, if it has one.
    pub(crate) fn known(&self, token: Token) -> Option<Arc<Node>> {
        let known = self.nodes.get(token);
        known.or_else(|| self.nodes.get(self.shown_as(token)))
    }

    /// Returns the token by which others know the claim.
    pub(crate) fn shown_as(&self, token: Token) -> Token {
        self.node_tokens
            .lock()
            .get(&token)
            .copied()
            .unwrap_or(token)
    }

    /// Has the claim hold the lock under the token by which others know it. Returns `None` if it is given up.
    pub(crate) fn grant(&self, node: &Node, claim: &Claim) -> Option<EnqueueReply> {
        let (named, ttl) = (node.named, claim.ttl);
        if named == claim.token {
            self.nodes.expire_in(named, ttl);
            return Some(EnqueueReply::Granted(ttl));
        }
        if !node.rename(&self.nodes, named) {
            return None;
        }
        self.nodes.expire_in(named, ttl);
        Some(EnqueueReply::GrantedAs(named, ttl))
    }

    /// Forgets a node that is gone.
    pub(crate) fn forget(&self, node: &Node) {
        node.forget(&self.nodes);
        if let Some(token) = node.waits_as() {
            self.node_tokens.lock().remove(&token);
        }
    }

    /// Keeps a claim in the line for a moment: its caller is about to wait, under another token.
    pub(crate) fn reserve(&self, node: &Arc<Node>) {
        self.reserved().push((node.clone(), PendingWork::new()));
        self.nodes.expire_in(node.token(), RESERVATION);
    }

    /// Returns the first reserved node that is accepted, which is no longer reserved, with the pending work of the thread
    /// for which it was.
    pub(crate) fn take_reserved(
        &self,
        accepts: impl Fn(&Node) -> bool,
    ) -> Option<(Arc<Node>, PendingWork)> {
        let mut reserved = self.reserved();
        let at = reserved.iter().position(|(node, _)| accepts(node))?;
        Some(reserved.remove(at))
    }

    fn reserved(&self) -> MutexGuard<'_, Vec<(Arc<Node>, PendingWork)>> {
        self.reserved.lock()
    }
}
