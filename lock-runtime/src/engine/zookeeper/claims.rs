//! The claims of this process, and their ends.
//!
//! What changes the line runs in tasks of the I/O thread, to its end, whoever still waits for it.

use crate::config::Config;
use crate::engine::request::Claim;
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::zookeeper::containers::Containers;
use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::net::request::Request;
use crate::engine::zookeeper::net::session::done;
use crate::engine::zookeeper::nodes::{Node, Nodes, Presence};
use crate::engine::zookeeper::paths::Paths;
use crate::engine::zookeeper::sessions::Sessions;
use crate::util::backoff::Backoff;
use crate::util::count::{Count, Owed};
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, sleep_until, timeout_at};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// For how long a place in the line is kept for a caller that is about to wait.
const RESERVATION: Duration = Duration::from_millis(100);

/// The claims of this process.
pub(crate) struct Claims {
    pub(crate) sessions: Sessions,
    pub(crate) nodes: Nodes,
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
        let address = &sessions.surroundings.address;
        let paths = Paths::new(&address.root, &config.prefix);
        let proofs = paths.sessions(&config.prefix);
        let claims = Arc::new(Claims {
            sessions,
            nodes: Nodes::default(),
            io,
            paths,
            containers: Containers::default(),
            proofs,
            command_timeout: config.command_timeout,
            leaving: Arc::new(Count::new()),
        });
        io.spawn_detached(expire(Arc::downgrade(&claims)));
        claims
    }

    /// Returns the node of the claim. If it has none that lives, it takes over a place that is reserved, or gets a new
    /// node.
    pub(crate) fn node(self: &Arc<Self>, claim: &Claim) -> Arc<Node> {
        let known = self.nodes.get(claim.token);
        let known = known.filter(|node| !node.session.is_ended());
        let node = known.unwrap_or_else(|| {
            let lock = self.paths.lock(&claim.name);
            let session = self.sessions.of(claim.ttl);
            let reserved = self.nodes.take_reserved(|node| {
                node.lock == lock
                    && node.token().limit() == claim.token.limit()
                    && Arc::ptr_eq(&node.session, &session)
            });
            let reserved = reserved.map(|(node, _)| node);
            let reserved = reserved.filter(|node| self.nodes.rename(node, claim.token));
            reserved.unwrap_or_else(|| {
                let node = Arc::new(Node::new(claim.token, lock, session));
                self.nodes.insert(node.clone());
                node
            })
        });
        self.nodes.expire_in(claim.token, WAITER_TTL);
        node
    }

    /// Keeps a claim in the line for a moment: its caller is about to wait, under another token.
    pub(crate) fn reserve(&self, node: &Arc<Node>) {
        self.nodes.reserve(node);
        self.nodes.expire_in(node.token(), RESERVATION);
    }

    /// Gives up the reserved places.
    pub(crate) fn leave_reserved(self: &Arc<Self>) {
        self.leave_those_reserved(|_| true);
    }

    fn leave_those_reserved(self: &Arc<Self>, which: impl Fn(&Node) -> bool) {
        while let Some((reserved, debt)) = self.nodes.take_reserved(&which) {
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
        if !node.begin_leaving() {
            return;
        }
        let owed = Owed::begin(&self.leaving);
        let (this, node) = (self.clone(), node.clone());
        self.io.spawn_detached(async move {
            let deleted = this.until_deleted(&node).await;
            if deleted {
                this.containers.saw(&node.lock, true);
            }
            this.nodes.remove(&node);
            node.set_gone(deleted);
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

/// Deletes the nodes of claims whose time is over.
async fn expire(claims: Weak<Claims>) {
    loop {
        let Some(claims) = claims.upgrade() else {
            return;
        };
        // Not for long: the engine ends when nothing else owns it.
        let limit = deadline_in(Duration::from_secs(1));
        let expired = timeout_at(limit, claims.nodes.expired()).await;
        for node in expired.unwrap_or_default() {
            claims.leave(&node);
        }
    }
}
