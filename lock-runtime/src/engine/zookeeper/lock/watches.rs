//! Following the place of a claim that waits: it is notified when its place may have changed.

use crate::engine::common::line::{Line, Place};
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::look::{LineWatches, MAX_LOOKS, look};
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::lock::read::{data, data_in_reply, submit_data};
use crate::engine::zookeeper::wire::error::Failure;
use tokio::time::Instant;

/// The greatest number of watches of a claim that waits; with more it is notified of all changes to the lock.
const MAX_WATCHES: usize = 4;

/// Returns the place of the claim with that name; `None` if it has no node. If it waits, it is notified when
/// its place may have changed.
pub(crate) async fn follow_place_of(
    node: &Node,
    name: &str,
    deadline: Instant,
) -> Result<Option<Place>, Failure> {
    if saw_sole_blocker_go(node, name) {
        return Ok(Some(Place::Holds));
    }
    let (token, is_own) = (node.token(), |child: &Child| child.name == name);
    for _ in 0..MAX_LOOKS {
        let watches_all = node.watches_all();
        let watches = match watches_all {
            true => LineWatches::All(token),
            false => LineWatches::First(token),
        };
        let line = look(&node.session, &node.lock, token.limit(), watches, deadline).await?;
        let place = line.as_ref().and_then(|line| line.place_of(is_own));
        let (Some(line), Some(Place::Waits { has_others, .. })) = (line, &place) else {
            return Ok(place);
        };
        // A claim that waits alone is notified of all changes: it wants to know when others wait, too.
        let wants_all = !has_others || line.blockers_of(is_own).len() > MAX_WATCHES;
        node.set_watches_all(wants_all);
        let is_complete = watches_all || !wants_all;
        if is_complete && watch_blockers(node, name, &line, deadline).await? {
            return Ok(place);
        }
    }
    Err(Failure::NoNode)
}

/// Returns `true` if only one claim was in the way of this one, and is gone: no claim can have come before it
/// meanwhile. Its own node has a watch, too, whose event would have come first if that node had been deleted
/// first.
fn saw_sole_blocker_go(node: &Node, name: &str) -> bool {
    node.take_blocker_gone() && node.session.is_watched(&node.path(name))
}

/// Has the claim notified when it may hold the lock. Returns `false` if that is so already, or its node is
/// gone.
async fn watch_blockers(
    node: &Node,
    name: &str,
    line: &Line<Child>,
    deadline: Instant,
) -> Result<bool, Failure> {
    let is_own = |child: &Child| child.name == name;
    match line.sole_blocker_of(is_own) {
        Some(blocker) => watch_sole_blocker(node, name, blocker, deadline).await,
        None if node.watches_all() => Ok(true),
        None => watch_each(node, &line.blockers_of(is_own), deadline).await,
    }
}

/// Has the claim notified when the only one is gone that is in its way. Returns `false` if that is gone
/// already, or the claim itself.
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
async fn watch_each(node: &Node, blockers: &[&Child], deadline: Instant) -> Result<bool, Failure> {
    let mut all_exist = true;
    for blocker in blockers {
        let watcher = Some(Watcher::new(node.token()));
        let data = data(&node.session, node.path(&blocker.name), watcher, deadline).await?;
        all_exist &= data.is_some();
    }
    Ok(all_exist)
}
