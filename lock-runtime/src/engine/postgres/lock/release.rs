//! Releases a lock, or leaves its queue, too.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::recipient::ReleaseRecipient;
use crate::engine::postgres::conn::batch::request::{Release, Request};
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::keys::stored;
use crate::engine::request::Claim;
use tokio::time::Instant;

/// Returns `true` if the lock was held. `leaves`: leaves the queue, too.
pub(crate) async fn release(
    requests: &RequestSender,
    claim: &Claim,
    leaves: bool,
    deadline: Instant,
) -> Result<bool, EngineError> {
    let request = |reply| of(claim, leaves, ReleaseRecipient::Caller(reply));
    requests.send(request, deadline).await
}

pub(crate) fn release_in_background(requests: &RequestSender, background: BackgroundRelease) {
    let claim = background.claim.clone();
    let recipient = ReleaseRecipient::supervisor_of(background);
    requests.queue.push(of(&claim, false, recipient));
}

fn of(claim: &Claim, leaves: bool, recipient: ReleaseRecipient) -> Request {
    Request::Release(Release {
        name: stored(&claim.name).into(),
        token: claim.token,
        leaves,
        recipient,
    })
}
