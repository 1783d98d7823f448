//! Claims: creating and deleting their nodes, and looking where they stand.
//!
//! Everything here runs in tasks of the I/O thread, to its end, whoever still waits for it.

use crate::config::Config;
use crate::engine::request::Claim;
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::token::Token;
use crate::engine::zookeeper::line::{Line, Standing};
use crate::engine::zookeeper::net::messages::{Failure, NodeKind, Reply, Request};
use crate::engine::zookeeper::net::session::{Session, Surroundings, done};
use crate::engine::zookeeper::nodes::{Node, Nodes, Place};
use crate::engine::zookeeper::paths::{Paths, lineage};
use crate::engine::zookeeper::sessions::Sessions;
use crate::limit::Limit;
use crate::util::backoff::Backoff;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now, sleep_until, timeout_at};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How often a request is repeated because nodes were created or deleted meanwhile.
const MAX_REPEATS: usize = 20;

/// The claims of this process.
pub(crate) struct Claims {
    pub(crate) sessions: Sessions,
    pub(crate) nodes: Nodes,
    pub(crate) io: IoThread,
    paths: Paths,
    /// The path below which each session has a node of its own.
    proofs: String,
    command_timeout: Duration,
    /// The number of nodes that are being deleted.
    leaving: AtomicUsize,
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
            proofs,
            command_timeout: config.command_timeout,
            leaving: AtomicUsize::new(0),
        });
        io.spawn_detached(expire(Arc::downgrade(&claims)));
        claims
    }

    /// Returns the node of the claim; a new one if it has none that lives.
    pub(crate) fn node(&self, claim: &Claim) -> Arc<Node> {
        let known = self.nodes.get(claim.token);
        let node = known.filter(|node| !node.session.is_ended());
        let node = node.unwrap_or_else(|| {
            let lock = self.paths.lock(&claim.name);
            let session = self.sessions.of(claim.ttl);
            let node = Arc::new(Node::new(claim.token, lock, session));
            self.nodes.insert(node.clone());
            node
        });
        self.nodes.expire_in(claim.token, WAITER_TTL);
        node
    }

    /// Returns `true` if one more claim with that limit would hold the lock at once. A server that lags behind the leader
    /// is asked again.
    pub(crate) async fn has_room(&self, claim: &Claim, deadline: Instant) -> Result<bool, Failure> {
        let (session, lock) = (self.sessions.of(claim.ttl), self.paths.lock(&claim.name));
        let limit = claim.token.limit();
        for lags in [true, false] {
            let line = read(&session, &lock, None, deadline).await?;
            let Some(mut line) = line else {
                return Ok(true);
            };
            if !line.has_room(limit)
                && !limit.is_exclusive()
                && let Some(first) = line.first_if_exclusive()
                && let path = format!("{lock}/{first}")
                && let Some(data) = data(&session, path, None, deadline).await?
                && let Some(limit) = shared_limit(&data)
            {
                line.share_first(limit);
            }
            if line.has_room(limit) {
                return Ok(true);
            }
            if lags {
                let path = lock.clone();
                done(session.request(Request::Sync { path }, deadline).await)?;
            }
        }
        Ok(false)
    }

    /// Waits until the session is proven for a good part of that ttl.
    pub(crate) async fn secure(
        &self,
        session: &Session,
        ttl: Duration,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let Surroundings { clock, tick, .. } = &*self.sessions.surroundings;
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

    /// Creates the node, unless it exists. Returns its name, or `None` if the claim is given up.
    pub(crate) async fn enter(
        &self,
        node: &Node,
        deadline: Instant,
    ) -> Result<Option<String>, Failure> {
        let _turn = node.turn.lock().await;
        if node.place() == Place::Requested {
            self.find(node, deadline).await?;
        }
        for _ in 0..MAX_REPEATS {
            if node.is_leaving() {
                return Ok(None);
            }
            if let Place::At(name) = node.place() {
                return Ok(Some(name));
            }
            node.set_place(Place::Requested);
            let path = node.path(&node.stem);
            let kind = NodeKind::Numbered;
            let created = node
                .session
                .request(Request::Create { path, kind }, deadline);
            match created.await {
                Ok(Reply::Created(path)) => {
                    let name = path.rsplit('/').next().unwrap_or_default();
                    node.set_place(Place::At(name.to_owned()));
                }
                Ok(_) => return Err(Failure::Malformed),
                Err(Failure::NoNode) => {
                    node.set_place(Place::Nowhere);
                    create_containers(&node.session, &node.lock, deadline).await?;
                }
                Err(failure) => {
                    // A malformed reply does not tell whether it exists.
                    if !matches!(failure, Failure::Unanswered(_) | Failure::Malformed) {
                        node.set_place(Place::Nowhere);
                    }
                    return Err(failure);
                }
            }
        }
        Err(Failure::NoNode)
    }

    /// Finds out whether a node exists whose creation was not answered.
    async fn find(&self, node: &Node, deadline: Instant) -> Result<(), Failure> {
        // What a majority has agreed to after it, on the same session, the next read sees, too.
        self.prove(&node.session, deadline).await?;
        let line = read(&node.session, &node.lock, None, deadline).await?;
        let found = line.as_ref().and_then(|line| line.find(&node.stem));
        node.set_place(found.map_or(Place::Nowhere, |name| Place::At(name.to_owned())));
        Ok(())
    }

    /// Returns where the claim stands. If it waits and is to be told, it is when that may have changed.
    pub(crate) async fn standing(
        &self,
        node: &Node,
        name: &str,
        tells: bool,
        deadline: Instant,
    ) -> Result<Standing, Failure> {
        let shares = !node.token().limit().is_exclusive();
        for _ in 0..MAX_REPEATS {
            let was_alone = node.is_alone();
            let watcher = (tells && was_alone).then_some(node.token());
            let line = read(&node.session, &node.lock, watcher, deadline).await?;
            let Some(mut line) = line else {
                return Ok(Standing::Absent);
            };
            let mut standing = line.standing(name);
            let first = line.first_if_exclusive().map(str::to_owned);
            let mut first_watched = None;
            if shares
                && matches!(standing, Standing::Waits { .. })
                && let Some(first) = first
            {
                let watcher = tells.then_some(node.token());
                let path = node.path(&first);
                let Some(data) = data(&node.session, path, watcher, deadline).await? else {
                    continue;
                };
                if let Some(limit) = shared_limit(&data) {
                    line.share_first(limit);
                    standing = line.standing(name);
                }
                first_watched = Some(first);
            }
            let Standing::Waits {
                has_others, behind, ..
            } = &standing
            else {
                return Ok(standing);
            };
            if !tells {
                return Ok(standing);
            }
            // A claim that waits alone is told of all changes: it wants to know when others wait, too.
            let all = !has_others || behind.len() > MAX_WATCHES;
            node.set_alone(all);
            let is_armed = match all {
                true => was_alone,
                false => {
                    let mut armed = true;
                    for name in behind
                        .iter()
                        .filter(|name| Some(*name) != first_watched.as_ref())
                    {
                        let (path, watcher) = (node.path(name), Some(node.token()));
                        armed &= data(&node.session, path, watcher, deadline)
                            .await?
                            .is_some();
                    }
                    armed
                }
            };
            if is_armed {
                return Ok(standing);
            }
        }
        Err(Failure::NoNode)
    }

    /// Proves that the session lives: a majority has agreed to a write. Returns the id of the transaction, which is
    /// greater than that of every earlier one.
    pub(crate) async fn prove(&self, session: &Session, deadline: Instant) -> Result<u64, Failure> {
        let path = format!("{}/{}", self.proofs, session.identity);
        let write = Request::SetData {
            path: path.clone(),
            data: String::new(),
        };
        for _ in 0..MAX_REPEATS {
            match session.request(write.clone(), deadline).await {
                Ok(Reply::Changed(zxid)) => return Ok(zxid),
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

    /// Deletes the node in the background, until it is known to be gone.
    pub(crate) fn leave(self: &Arc<Self>, node: &Arc<Node>) {
        if !node.begin_leaving() {
            return;
        }
        self.leaving.fetch_add(1, Ordering::Relaxed);
        let (this, node) = (self.clone(), node.clone());
        self.io.spawn_detached(async move {
            let deleted = this.until_deleted(&node).await;
            this.nodes.remove(&node);
            node.set_gone(deleted);
            this.leaving.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Returns `true` if no node is being deleted.
    pub(crate) fn is_idle(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) == 0
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
            let failed = match node.place() {
                Place::Nowhere => return false,
                Place::Requested => self.find(node, deadline).await.is_err(),
                Place::At(name) => {
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

/// The greatest number of watches of a claim that waits; with more it is told of all changes to the lock.
const MAX_WATCHES: usize = 4;

/// Returns the limit that a downgraded holder has written into its node.
fn shared_limit(data: &[u8]) -> Option<Limit> {
    let token = Token::parse(std::str::from_utf8(data).ok()?)?;
    Some(token.limit()).filter(|limit| !limit.is_exclusive())
}

/// Returns the claims of a lock, or `None` if its node does not exist.
async fn read(
    session: &Session,
    lock: &str,
    watcher: Option<Token>,
    deadline: Instant,
) -> Result<Option<Line>, Failure> {
    let request = Request::Children {
        path: lock.to_owned(),
        watch: watcher.is_some(),
    };
    match session.submit(request, watcher, deadline).answer().await {
        Ok(Reply::Children(names)) => Ok(Some(Line::new(&names))),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the data of a node, or `None` if there is none.
async fn data(
    session: &Session,
    path: String,
    watcher: Option<Token>,
    deadline: Instant,
) -> Result<Option<Vec<u8>>, Failure> {
    let watch = watcher.is_some();
    let request = Request::Data { path, watch };
    match session.submit(request, watcher, deadline).answer().await {
        Ok(Reply::Data(data)) => Ok(Some(data)),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Creates a container and those above it.
pub(crate) async fn create_containers(
    session: &Session,
    path: &str,
    deadline: Instant,
) -> Result<(), Failure> {
    let lineage: Vec<&str> = lineage(path).collect();
    // From the bottom: mostly only the last one is missing.
    let mut at = lineage.len().saturating_sub(1);
    while let Some(path) = lineage.get(at) {
        let create = Request::Create {
            path: (*path).to_owned(),
            kind: NodeKind::Container,
        };
        match session.request(create, deadline).await {
            Ok(_) | Err(Failure::Exists) => at += 1,
            Err(Failure::NoNode) if at > 0 => at -= 1,
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
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
