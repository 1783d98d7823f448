//! The trait of a quorum's members.

use crate::engine::inspection::Inspection;
use crate::engine::redis::quorum::requests::VoteRequests;
use crate::engine::requests::Operations;
use std::pin::Pin;
use std::time::Duration;

/// One of the independent deployments that make up a quorum.
pub(crate) trait Member: VoteRequests + Operations {
    /// Returns the member's address, without secrets.
    fn address(&self) -> &str;

    /// Checks the member's servers for settings that endanger locks with that ttl.
    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(std::future::ready(Inspection::default()))
    }

    /// Returns the lock's slot: locks in the same slot are best renewed together.
    fn slot(&self, _name: &str) -> u16 {
        0
    }

    /// Returns `true` if recalls by way of this member reach the process now. Starts what that needs.
    fn hears_recalls(&self) -> bool {
        false
    }

    /// Begins to receive what others ask.
    fn listen(&self) {}
}
