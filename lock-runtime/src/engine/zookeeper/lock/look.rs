//! Looking for the place of a claim in the line of its lock, and watching for what may change it.

use crate::engine::common::line::{Line, Place};
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::conn::session::{Session, Submitted, done};
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::entry::{Child, line_of};
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::Reply;
use crate::engine::zookeeper::wire::request::Request;
use crate::limit::Limit;
use tokio::time::Instant;

/// How often a claim looks again because nodes were deleted meanwhile.
const MAX_LOOKS: usize = 20;

/// The greatest number of watches of a claim that waits; with more it is notified of all changes to the lock.
const MAX_WATCHES: usize = 4;

/// The watches that a look at a line leaves.
#[derive(Clone, Copy)]
enum Watches {
    None,
    /// The claim is notified if the first one in the line changes.
    First(Token),
    /// The claim is notified of all changes.
    All(Token),
}

impl Claims {
    /// Returns `true` if one more claim with that limit would hold the lock at once. A server that lags behind the leader
    /// is asked again.
    pub(crate) async fn has_room(&self, claim: &Claim, deadline: Instant) -> Result<bool, Failure> {
        let (session, lock) = (self.sessions.of(claim.ttl), self.paths.lock(&claim.name));
        let limit = claim.token.limit();
        for looks_again in [false, true] {
            let path = lock.clone();
            let sync = || session.submit(Request::Sync { path }, None, deadline);
            let synced = looks_again.then(sync);
            let line = look(&session, &lock, limit, Watches::None, deadline).await?;
            if let Some(synced) = synced {
                done(synced.reply().await)?;
            }
            self.containers.saw(&lock, line.is_some());
            if line.is_none_or(|line| line.has_room_for(limit)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the place of the claim with that name; `None` if it has no node.
pub(crate) async fn place_of(
    node: &Node,
    name: &str,
    deadline: Instant,
) -> Result<Option<Place>, Failure> {
    let limit = node.token().limit();
    let line = look(&node.session, &node.lock, limit, Watches::None, deadline).await?;
    Ok(line.and_then(|line| line.place_of(|child| child.name == name)))
}

/// Returns the place of the claim with that name; `None` if it has no node. If it waits, it is notified when its place
/// may have changed.
pub(crate) async fn follow_place_of(
    node: &Node,
    name: &str,
    deadline: Instant,
) -> Result<Option<Place>, Failure> {
    let (session, token) = (&node.session, node.token());
    // If only one claim was in its way, and is gone, it holds the lock: no claim can have come before it meanwhile. Its
    // own node has a watch, too, whose event would come first if that node had been deleted first.
    if node.take_blocker_gone() && session.is_watched(&node.path(name)) {
        return Ok(Some(Place::Holds));
    }
    for _ in 0..MAX_LOOKS {
        let watches_all = node.watches_all();
        let watches = match watches_all {
            true => Watches::All(token),
            false => Watches::First(token),
        };
        let Some(line) = look(session, &node.lock, token.limit(), watches, deadline).await? else {
            return Ok(None);
        };
        let is_own = |child: &Child| child.name == name;
        let place = line.place_of(is_own);
        let Some(Place::Waits { has_others, .. }) = place else {
            return Ok(place);
        };
        let blockers = line.blockers_of(is_own);
        // A claim that waits alone is notified of all changes: it wants to know when others wait, too.
        let wants_all = !has_others || blockers.len() > MAX_WATCHES;
        node.set_watches_all(wants_all);
        if wants_all && !watches_all {
            continue;
        }
        let is_watched = match line.sole_blocker_of(is_own) {
            Some(blocker) => watch_sole_blocker(node, name, blocker, deadline).await?,
            None if wants_all => true,
            None => watch_blockers(node, &blockers, deadline).await?,
        };
        if is_watched {
            return Ok(place);
        }
    }
    Err(Failure::NoNode)
}

/// Has the claim notified when the only one is gone that is in its way. Returns `false` if that is gone already, or the
/// claim itself.
async fn watch_sole_blocker(
    node: &Node,
    name: &str,
    blocker: &Child,
    deadline: Instant,
) -> Result<bool, Failure> {
    let (session, own) = (&node.session, node.path(name));
    let is_watched = session.is_watched(&own);
    let watch_own = || submit_data(session, own, Some(Watcher::silent()), deadline);
    let own = (!is_watched).then(watch_own);
    let watcher = Watcher::new(node.token());
    node.set_blocker_gone(watcher.saw_end.clone());
    let blocker = data(session, node.path(&blocker.name), Some(watcher), deadline).await?;
    let own_exists = match own {
        Some(own) => data_in_reply(own).await?.is_some(),
        None => true,
    };
    Ok(own_exists && blocker.is_some())
}

/// Has the claim notified when one of those in its way is gone. Returns `false` if one is gone already.
async fn watch_blockers(
    node: &Node,
    blockers: &[&Child],
    deadline: Instant,
) -> Result<bool, Failure> {
    let mut all_exist = true;
    for blocker in blockers {
        let watcher = Some(Watcher::new(node.token()));
        let data = data(&node.session, node.path(&blocker.name), watcher, deadline).await?;
        all_exist &= data.is_some();
    }
    Ok(all_exist)
}

/// Returns the claims of a lock as one with that limit has to see them, or `None` if its node does not exist. To a claim
/// that may share the lock it matters whether the first one was downgraded.
async fn look(
    session: &Session,
    lock: &str,
    limit: Limit,
    watches: Watches,
    deadline: Instant,
) -> Result<Option<Line<Child>>, Failure> {
    let (of_all, of_first) = match watches {
        Watches::None => (None, None),
        Watches::First(token) => (None, Some(token)),
        Watches::All(token) => (Some(token), Some(token)),
    };
    for _ in 0..MAX_LOOKS {
        let line = read(session, lock, of_all.map(Watcher::new), deadline).await?;
        let Some(mut line) = line else {
            return Ok(None);
        };
        let first = line.first_if_exclusive();
        let Some(first) = first.filter(|_| !limit.is_exclusive()) else {
            return Ok(Some(line));
        };
        let path = format!("{lock}/{}", first.name);
        if let Some(data) = data(session, path, of_first.map(Watcher::new), deadline).await? {
            if let Some(limit) = shared_limit(&data) {
                line.share_first(limit);
            }
            return Ok(Some(line));
        }
    }
    Err(Failure::NoNode)
}

/// Returns the limit that a downgraded holder has written into its node.
fn shared_limit(data: &[u8]) -> Option<Limit> {
    let token = Token::parse(std::str::from_utf8(data).ok()?)?;
    Some(token.limit()).filter(|limit| !limit.is_exclusive())
}

/// Returns the claims of a lock, or `None` if its node does not exist.
pub(crate) async fn read(
    session: &Session,
    lock: &str,
    watcher: Option<Watcher>,
    deadline: Instant,
) -> Result<Option<Line<Child>>, Failure> {
    let request = Request::Children {
        path: lock.to_owned(),
        watch: watcher.is_some(),
    };
    match session.submit(request, watcher, deadline).reply().await {
        Ok(Reply::Children(names)) => Ok(Some(line_of(&names))),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns `true` if the node exists: its claim has the lock if it had it before.
pub(crate) async fn exists(node: &Node, deadline: Instant) -> Result<bool, Failure> {
    if node.is_leaving() {
        return Ok(false);
    }
    let Some(path) = node.known_path() else {
        return Ok(false);
    };
    done(
        node.session
            .request(Request::Exists { path }, deadline)
            .await,
    )
}

/// Returns the data of a node, or `None` if there is none.
async fn data(
    session: &Session,
    path: String,
    watcher: Option<Watcher>,
    deadline: Instant,
) -> Result<Option<Vec<u8>>, Failure> {
    data_in_reply(submit_data(session, path, watcher, deadline)).await
}

fn submit_data(
    session: &Session,
    path: String,
    watcher: Option<Watcher>,
    deadline: Instant,
) -> Submitted<'_> {
    let watch = watcher.is_some();
    session.submit(Request::Data { path, watch }, watcher, deadline)
}

async fn data_in_reply(submitted: Submitted<'_>) -> Result<Option<Vec<u8>>, Failure> {
    match submitted.reply().await {
        Ok(Reply::Data(data)) => Ok(Some(data)),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}
