//! Looking where a claim stands in the line of its lock.

use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::engine::zookeeper::claims::Claims;
use crate::engine::zookeeper::line::{Line, Standing};
use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::net::in_flight::Watcher;
use crate::engine::zookeeper::net::reply::Reply;
use crate::engine::zookeeper::net::request::Request;
use crate::engine::zookeeper::net::session::{Session, Submitted, done};
use crate::engine::zookeeper::nodes::Node;
use crate::limit::Limit;
use tokio::time::Instant;

/// How often a claim looks again because nodes were deleted meanwhile.
const MAX_LOOKS: usize = 20;

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
            let line = read(&session, &lock, None, deadline).await?;
            if let Some(synced) = synced {
                done(synced.answer().await)?;
            }
            self.containers.saw(&lock, line.is_some());
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
        }
        Ok(false)
    }

    /// Returns where the claim stands. If it waits and is to be told, it is when that may have changed. If only one claim
    /// was in its way, and is gone, it holds the lock: no claim can have come before it meanwhile. Its own node has a
    /// watch, too, whose event would come first if that node had been deleted first.
    pub(crate) async fn standing(
        &self,
        node: &Node,
        name: &str,
        tells: bool,
        deadline: Instant,
    ) -> Result<Standing, Failure> {
        let session = &node.session;
        let own = node.path(name);
        if tells && node.take_passage() && session.is_watched(&own) {
            return Ok(Standing::Holds);
        }
        let shares = !node.token().limit().is_exclusive();
        let watcher = || Watcher::new(node.token());
        for _ in 0..MAX_LOOKS {
            let was_alone = node.is_alone();
            let watcher_of_all = (tells && was_alone).then(watcher);
            let line = read(session, &node.lock, watcher_of_all, deadline).await?;
            let Some(mut line) = line else {
                return Ok(Standing::Absent);
            };
            let mut standing = line.standing(name);
            let first = line.first_if_exclusive().map(str::to_owned);
            if shares
                && matches!(standing, Standing::Waits { .. })
                && let Some(first) = first
            {
                let path = node.path(&first);
                let Some(data) = data(session, path, tells.then(watcher), deadline).await? else {
                    continue;
                };
                if let Some(limit) = shared_limit(&data) {
                    line.share_first(limit);
                    standing = line.standing(name);
                }
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
            let last = match &**behind {
                [last] if line.holds_without(name, last) => Some(last),
                _ => None,
            };
            let mut is_armed = was_alone || !all;
            let watch_own = || submit_data(session, own.clone(), Some(Watcher::silent()), deadline);
            let own = (last.is_some() && !session.is_watched(&own)).then(watch_own);
            for other in behind.iter().filter(|other| !all || Some(*other) == last) {
                let (path, watcher) = (node.path(other), watcher());
                if last == Some(other) {
                    node.set_passage(watcher.saw_end.clone());
                }
                let data = data(session, path, Some(watcher), deadline).await?;
                is_armed &= data.is_some();
            }
            if let Some(own) = own {
                is_armed &= answered_data(own).await?.is_some();
            }
            if is_armed {
                return Ok(standing);
            }
        }
        Err(Failure::NoNode)
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
pub(crate) async fn read(
    session: &Session,
    lock: &str,
    watcher: Option<Watcher>,
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
    watcher: Option<Watcher>,
    deadline: Instant,
) -> Result<Option<Vec<u8>>, Failure> {
    answered_data(submit_data(session, path, watcher, deadline)).await
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

async fn answered_data(submitted: Submitted<'_>) -> Result<Option<Vec<u8>>, Failure> {
    match submitted.answer().await {
        Ok(Reply::Data(data)) => Ok(Some(data)),
        Ok(_) => Err(Failure::Malformed),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(failure),
    }
}
