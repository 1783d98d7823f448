//! The claims of this process, and their ends.
//!
//! What changes the line runs in tasks of the I/O thread, to its end, whoever still waits for it.

use crate::config::Config;
use crate::engine::common::claim_table::{ClaimTable, end_expired};
use crate::engine::request::Claim;
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::zookeeper::containers::Containers;
use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::net::request::Request;
use crate::engine::zookeeper::net::session::{SessionContext, done};
use crate::engine::zookeeper::node::{Node, Presence};
use crate::engine::zookeeper::paths::Paths;
use crate::engine::zookeeper::sessions::Sessions;
use crate::util::backoff::Backoff;
use crate::util::count::{Count, Owed};
use crate::util::io_thread::IoThread;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::thread_end::Debt;
use crate::util::time::{deadline_in, sleep_until};
use std::sync::Arc;
use std::time::Duration;

/// For how long a place in the line is kept for a caller that is about to wait.
const RESERVATION: Duration = Duration::from_millis(100);

/// The claims of this process.
pub(crate) struct Claims {
    pub(crate) sessions: Sessions,
    pub(crate) nodes: Arc<ClaimTable<Arc<Node>>>,
    /// The nodes whose callers are about to wait under another token.
    reserved: Mutex<Vec<(Arc<Node>, Debt)>>,
    pub(crate) io: IoThread,
    pub(crate) paths: Paths,
    pub(crate) containers: Containers,
    /// The path below which each session has a node of its own.
    pub(crate) proofs: String,
    command_timeout: Duration,
    /// The nodes that are being deleted.
    pub(crate) leaving: Arc<Count>,
}

impl Claims {
    pub(crate) fn new(sessions: Sessions, io: IoThread, config: &Config) -> Arc<Claims> {
        let SessionContext { address, clock, .. } = &*sessions.context;
        let nodes = Arc::new(ClaimTable::new(clock.clone()));
        let paths = Paths::new(&address.root, &config.prefix);
        let proofs = paths.sessions(&config.prefix);
        let claims = Arc::new(Claims {
            sessions,
            nodes: nodes.clone(),
            reserved: Mutex::default(),
            io,
            paths,
            containers: Containers::default(),
            proofs,
            command_timeout: config.command_timeout,
            leaving: Arc::new(Count::new()),
        });
        let weak = Arc::downgrade(&claims);
        io.spawn_detached(end_expired(nodes, weak, |claims, token| {
            if let Some(node) = claims.nodes.get(token) {
                claims.leave(&node);
            }
        }));
        claims
    }

    /// Returns the node of the claim. If it has none that lives, it takes over a place that is reserved, or gets a new
    /// node.
    pub(crate) fn node(self: &Arc<Self>, claim: &Claim) -> Arc<Node> {
        let lives = |node: &Arc<Node>| !node.session.is_ended();
        let known = self.nodes.get(claim.token).filter(lives);
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
            let new = || Arc::new(Node::new(claim.token, lock, session));
            reserved.unwrap_or_else(|| self.nodes.get_or_insert(claim.token, lives, new))
        });
        self.nodes.expire_in(claim.token, WAITER_TTL);
        node
    }

    /// Keeps a claim in the line for a moment: its caller is about to wait, under another token.
    pub(crate) fn reserve(&self, node: &Arc<Node>) {
        self.reserved().push((node.clone(), Debt::new()));
        self.nodes.expire_in(node.token(), RESERVATION);
    }

    /// Returns the first reserved node that is accepted, which is no longer reserved, with the debt of the thread for
    /// which it was.
    fn take_reserved(&self, accepts: impl Fn(&Node) -> bool) -> Option<(Arc<Node>, Debt)> {
        let mut reserved = self.reserved();
        let at = reserved.iter().position(|(node, _)| accepts(node))?;
        Some(reserved.remove(at))
    }

    fn reserved(&self) -> MutexGuard<'_, Vec<(Arc<Node>, Debt)>> {
        self.reserved.lock()
    }

    /// Gives up the reserved places.
    pub(crate) fn leave_reserved(self: &Arc<Self>) {
        self.leave_those_reserved(|_| true);
    }

    fn leave_those_reserved(self: &Arc<Self>, which: impl Fn(&Node) -> bool) {
        while let Some((reserved, debt)) = self.take_reserved(&which) {
            debt.charge(|| self.begin_to_leave(&reserved));
        }
    }

    /// Deletes the node in the background, until it is known to be gone.
    pub(crate) fn leave(self: &Arc<Self>, node: &Arc<Node>) {
        // Whoever wants the lock now finds no claim of this process that nothing waits with.
        self.leave_those_reserved(|other| other.lock == node.lock);
        self.begin_to_leave(node);
    }

    fn begin_to_leave(self: &Arc<Self>, node: &Arc<Node>) {
        if !node.ending.begin() {
            return;
        }
        let owed = Owed::begin(&self.leaving);
        let (this, node) = (self.clone(), node.clone());
        self.io.spawn_detached(async move {
            let deleted = this.until_deleted(&node).await;
            if deleted {
                this.containers.saw(&node.lock, true);
            }
            node.forget(&this.nodes);
            node.ending.finish(deleted);
            drop(owed);
        });
    }

    async fn until_deleted(&self, node: &Node) -> bool {
        let _turn = node.turn.lock().await;
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
        // Then it is this process that has deleted the node.
        let mut was_sent = false;
        loop {
            if node.session.is_ended() {
                return false;
            }
            let deadline = deadline_in(self.command_timeout);
            let failed = match node.presence() {
                Presence::Absent => return false,
                Presence::Requested => self.find(node, deadline).await.is_err(),
                Presence::Present(name) => {
                    let path = node.path(&name);
                    let deleted = node.session.request(Request::Delete { path }, deadline);
                    match done(deleted.await) {
                        Ok(deleted) => return deleted || was_sent,
                        Err(failure) => {
                            was_sent |= matches!(failure, Failure::Unanswered(_));
                            node.ending.fail(failure.into_error());
                            true
                        }
                    }
                }
            };
            if failed {
                sleep_until(deadline_in(backoff.pause())).await;
            }
        }
    }
}
