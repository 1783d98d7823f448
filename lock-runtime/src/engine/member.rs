//! What a quorum asks of each of its members.

use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::request::{Answer, Claim};
use crate::engine::token::Token;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::Instant;

/// One of the independent deployments that make up a quorum.
pub(crate) trait Member: Send + Sync {
    /// Where it is, without secrets.
    fn address(&self) -> &str;

    /// Looks for what makes it unsafe for locks of that ttl.
    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(std::future::ready(Inspection::default()))
    }

    /// Locks with the same number are best renewed together.
    fn slot(&self, _name: &str) -> u16 {
        0
    }

    /// Takes the lock here, if nobody else has it here. A claim that stands in the queue as `place`
    /// leaves it with that.
    fn vote<'a>(
        &'a self,
        claim: &'a Claim,
        place: Option<Token>,
        until: Instant,
    ) -> Answer<'a, Vote>;

    /// Stands in the queue here, or goes on standing there, and takes nothing.
    fn look<'a>(&'a self, place: &'a Claim, until: Instant) -> Answer<'a, Look>;

    /// Leaves the queue here.
    fn leave<'a>(&'a self, place: &'a Claim, until: Instant) -> Answer<'a, ()>;

    /// Frees the lock here, if it is the claim's; false if it was not. `tell`: the first in the queue
    /// hears of it.
    fn free<'a>(&'a self, claim: &'a Claim, tell: bool, until: Instant) -> Answer<'a, bool>;

    /// Gives each lock that is still the claim's here its whole ttl again.
    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        until: Instant,
    ) -> Answer<'a, Vec<Result<bool, EngineError>>>;

    /// A number greater than any that was given out or stored here before, or none if the lock is not
    /// the claim's here.
    fn fencing_token<'a>(&'a self, claim: &'a Claim, until: Instant) -> Answer<'a, Option<u64>>;

    /// Has all numbers that are given out here from now on be greater than that; false if the lock is
    /// not the claim's here.
    fn store_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        until: Instant,
    ) -> Answer<'a, bool>;
}

/// What a member said when it was asked for a lock.
#[derive(Clone, Debug)]
pub(crate) enum Vote {
    Granted,
    /// Somebody else has it here, for so long.
    Held {
        by: Box<[u8]>,
        left: Duration,
    },
    Failed(EngineError),
}

/// What a claim sees that stands in a member's queue.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    /// Who has the lock here, and for how long.
    pub(crate) holder: Option<(Box<[u8]>, Duration)>,
    /// How many stand before the claim.
    pub(crate) ahead: u64,
    /// Whether anybody but the claim stands in the queue.
    pub(crate) others: bool,
}
