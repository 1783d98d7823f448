//! Reading nodes: the claims of a lock, whether one exists, and the data of one.

use crate::engine::common::line::Line;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::conn::session::{Session, Submitted, done};
use crate::engine::zookeeper::lock::entry::{Child, line_of};
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::reply::{Reply, Stat};
use crate::engine::zookeeper::wire::request::Request;
use tokio::time::Instant;

/// The greatest number of children of a node that is listed for people. A connection ends over a message of
/// more than 16 MB.
const MAX_CHILDREN: i32 = 100_000;

/// Returns the claims of a lock, or `None` if its node does not exist.
pub(crate) async fn claims_of(
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

/// Returns the names of a node's children, once the server has caught up with the leader.
pub(crate) async fn children_of(
    session: &Session,
    path: &str,
    deadline: Instant,
) -> Result<Vec<String>, Failure> {
    let request = |request| session.submit(request, None, deadline);
    let synced = request(Request::Sync { path: path.into() });
    let Some(stat) = stat_in_reply(submit_stat(session, path.into(), deadline)).await? else {
        return Ok(Vec::new());
    };
    done(synced.reply().await)?;
    if stat.children > MAX_CHILDREN {
        return Err(Failure::TooMany);
    }
    let (path, watch) = (path.to_owned(), false);
    match request(Request::Children { path, watch }).reply().await {
        Ok(Reply::Children(names)) => Ok(names),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(Vec::new()),
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
    let found = submit_stat(&node.session, path, deadline);
    Ok(stat_in_reply(found).await?.is_some())
}

pub(crate) fn submit_stat(session: &Session, path: String, deadline: Instant) -> Submitted<'_> {
    session.submit(Request::Exists { path }, None, deadline)
}

/// Returns what the server says of a node, or `None` if there is none.
pub(crate) async fn stat_in_reply(submitted: Submitted<'_>) -> Result<Option<Stat>, Failure> {
    match submitted.reply().await {
        Ok(Reply::Found(stat)) => Ok(Some(stat)),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the data of a node, or `None` if there is none.
pub(crate) async fn data(
    session: &Session,
    path: String,
    watcher: Option<Watcher>,
    deadline: Instant,
) -> Result<Option<Vec<u8>>, Failure> {
    data_in_reply(submit_data(session, path, watcher, deadline)).await
}

pub(crate) fn submit_data(
    session: &Session,
    path: String,
    watcher: Option<Watcher>,
    deadline: Instant,
) -> Submitted<'_> {
    let watch = watcher.is_some();
    session.submit(Request::Data { path, watch }, watcher, deadline)
}

pub(crate) async fn data_in_reply(submitted: Submitted<'_>) -> Result<Option<Vec<u8>>, Failure> {
    match submitted.reply().await {
        Ok(Reply::Data(data, _)) => Ok(Some(data)),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}
