//! Looking at the line of a lock, as a claim with that limit has to see it.

use crate::engine::common::line::{Line, Place};
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::engine::zookeeper::conn::batch::in_flight::Watcher;
use crate::engine::zookeeper::conn::session::{Session, done};
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::lock::entry::Child;
use crate::engine::zookeeper::lock::node::Node;
use crate::engine::zookeeper::lock::read::{claims_of, data};
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::request::Request;
use crate::limit::Limit;
use tokio::time::Instant;

/// How many times a claim looks again because nodes were deleted meanwhile.
pub(crate) const MAX_LOOKS: usize = 20;

/// The watches that a look at a line leaves.
#[derive(Clone, Copy)]
pub(crate) enum LineWatches {
    None,
    /// The claim is notified if the first one in the line changes.
    First(Token),
    /// The claim is notified of all changes.
    All(Token),
}

impl Claims {
    /// Returns `true` if one more claim with that limit would hold the lock at once. A server that lags
    /// behind the leader is asked again.
    pub(crate) async fn has_room(&self, claim: &Claim, deadline: Instant) -> Result<bool, Failure> {
        let (session, lock) = (self.sessions.of(claim.ttl), self.paths.lock(&claim.name));
        let limit = claim.token.limit();
        for looks_again in [false, true] {
            let line = match looks_again {
                false => look(&session, &lock, limit, LineWatches::None, deadline).await?,
                true => look_in_sync(&session, &lock, limit, deadline).await?,
            };
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
    let line = look(
        &node.session,
        &node.lock,
        limit,
        LineWatches::None,
        deadline,
    )
    .await?;
    Ok(line.and_then(|line| line.place_of(|child| child.name == name)))
}

/// Returns the claims of a lock as one with that limit has to see them, or `None` if its node does not exist.
/// To a claim that may share the lock it matters whether the first one was downgraded.
pub(crate) async fn look(
    session: &Session,
    lock: &str,
    limit: Limit,
    watches: LineWatches,
    deadline: Instant,
) -> Result<Option<Line<Child>>, Failure> {
    let (of_all, of_first) = match watches {
        LineWatches::None => (None, None),
        LineWatches::First(token) => (None, Some(token)),
        LineWatches::All(token) => (Some(token), Some(token)),
    };
    for _ in 0..MAX_LOOKS {
        let line = claims_of(session, lock, of_all.map(Watcher::new), deadline).await?;
        let Some(mut line) = line else {
            return Ok(None);
        };
        let first = line.first_if_exclusive();
        let Some(first) = first.filter(|_| !limit.is_exclusive()) else {
            return Ok(Some(line));
        };
        let path = format!("{lock}/{}", first.name);
        if let Some(data) = data(session, path, of_first.map(Watcher::new), deadline).await? {
            if let Some(to) = downgraded_to(&data) {
                line.share_first(to);
            }
            return Ok(Some(line));
        }
    }
    Err(Failure::NoNode)
}

/// Looks once the server has caught up with the leader.
pub(crate) async fn look_in_sync(
    session: &Session,
    lock: &str,
    limit: Limit,
    deadline: Instant,
) -> Result<Option<Line<Child>>, Failure> {
    let path = lock.to_owned();
    let synced = session.submit(Request::Sync { path }, None, deadline);
    let line = look(session, lock, limit, LineWatches::None, deadline).await?;
    done(synced.reply().await)?;
    Ok(line)
}

/// Returns the token that a downgraded holder has written into its node.
fn downgraded_to(data: &[u8]) -> Option<Token> {
    Token::read(data).filter(|token| !token.limit().is_exclusive())
}
