//! Releases a lock, or leaves its queue, too.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::conn::batch::recipient::ReleaseRecipient;
use crate::engine::postgres::conn::batch::request::{Release, Request};
use crate::engine::postgres::keys::stored;
use crate::engine::request::Claim;
use tokio::time::Instant;

impl PostgresEngine {
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.leave(claim, false, deadline).await
    }

    /// Leaves the queue, too.
    pub(crate) async fn cancel(
        &self,
        claim: &Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        self.leave(claim, true, deadline).await
    }

    /// Returns `true` if the lock was held. `queue`: leaves the queue, too.
    async fn leave(
        &self,
        claim: &Claim,
        queue: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let request = |reply| of(claim, queue, ReleaseRecipient::Caller(reply));
        self.requests.send(request, deadline).await
    }

    pub(crate) fn begin_release(&self, background: BackgroundRelease) {
        let claim = background.claim.clone();
        let recipient = ReleaseRecipient::supervisor_of(background);
        self.requests.queue.push(of(&claim, false, recipient));
    }
}

fn of(claim: &Claim, leaves: bool, recipient: ReleaseRecipient) -> Request {
    Request::Release(Release {
        name: stored(&claim.name).into(),
        token: claim.token,
        leaves,
        recipient,
    })
}
