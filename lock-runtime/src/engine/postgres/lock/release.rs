//! Releases a lock, or leaves its queue, too.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::request::{
    Release, ReleaseReply, Request, UnansweredRelease,
};
use crate::engine::postgres::conn::batch::requests::Requests;
use crate::engine::postgres::keys::stored;
use crate::engine::request::Claim;
use tokio::time::Instant;

/// Returns `true` if the lock was held. `leaves`: leaves the queue, too.
pub(crate) async fn release(
    requests: &Requests,
    claim: &Claim,
    leaves: bool,
    deadline: Instant,
) -> Result<bool, EngineError> {
    let request = |reply| of(claim, leaves, ReleaseReply::Caller(reply));
    requests.send(request, deadline).await
}

pub(crate) fn release_in_background(requests: &Requests, background: BackgroundRelease) {
    let claim = background.claim.clone();
    let reply = ReleaseReply::Background(UnansweredRelease(Some(background)));
    requests.queue.push(of(&claim, false, reply));
}

fn of(claim: &Claim, leaves: bool, reply: ReleaseReply) -> Request {
    Request::Release(Release {
        name: stored(&claim.name).into(),
        token: claim.token,
        leaves,
        reply,
    })
}
