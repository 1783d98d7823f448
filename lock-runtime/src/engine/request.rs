//! Requests to an engine and their replies.

use crate::engine::error::EngineError;
use crate::engine::timeouts::RECALLING;
use crate::engine::token::{Draw, Token};
use crate::error::Holder;
use crate::limit::Limit;
use crate::process::ProcessId;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The reply to one request, which arrives by the deadline of the request.
pub(crate) type EngineFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// What a caller wants to acquire. The engine draws a token for it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) process: ProcessId,
    /// The name under which the engine stores the lock: prefix and key.
    pub(crate) name: Arc<str>,
    pub(crate) ttl: Duration,
    /// How many replicas must acknowledge the acquisition before it counts.
    pub(crate) replicas: u32,
    pub(crate) limit: Limit,
    /// The process may keep the lock after the caller's body.
    pub(crate) is_recallable: bool,
    /// `true` if the caller is going to wait for a lock that is not free: a place in its line may be reserved
    /// for it.
    #[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
    pub(crate) waits: bool,
    /// The names of further locks, which are acquired after the first one, in this order, until one is not
    /// available. See [`Engine::in_one_request`](crate::engine::traits::Engine::in_one_request).
    pub(crate) others: Option<Arc<[Arc<str>]>>,
}

impl Attempt {
    /// Returns `true` if `SET NX` does not suffice.
    pub(crate) fn needs_script(&self) -> bool {
        self.others.is_some() || !self.limit.is_exclusive()
    }

    /// Returns the names of all locks, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.name).chain(self.others.iter().flat_map(|others| &**others))
    }

    /// Returns the token of the attempt.
    pub(crate) fn token(&self, draw: Draw) -> Token {
        let token = Token::new(self.process, draw).with_limit(self.limit);
        token.recallable_if(self.is_recallable)
    }

    /// Returns the claims of this attempt, the first of which has that token.
    pub(crate) fn claims(&self, first: Token) -> impl Iterator<Item = Claim> {
        let names = self.names().zip(0..);
        names.map(move |(name, nth)| self.claim_of(name, first.nth(nth)))
    }

    /// Returns the claim of the first lock.
    pub(crate) fn claim(&self, token: Token) -> Claim {
        self.claim_of(&self.name, token)
    }

    fn claim_of(&self, name: &Arc<str>, token: Token) -> Claim {
        Claim {
            name: name.clone(),
            token,
            ttl: self.ttl,
            replicas: self.replicas,
        }
    }
}

/// What an attempt has acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// That number of locks, from the first one on. The first has that token, the others have the
    /// [tokens](Token::nth) that follow it.
    Locks { token: Token, count: usize },
    /// A place in the line of the first lock, which is reserved for the token.
    #[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
    Place(Token),
}

/// One attempt to acquire a lock.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// The name under which the engine stores the lock: prefix and key.
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// How many replicas must acknowledge the acquisition before it counts.
    pub(crate) replicas: u32,
}

/// The state of a claim after it has entered a queue.
#[derive(Debug)]
pub(crate) enum EnqueueReply {
    /// The claim acquires the lock, for that long from now.
    Granted(Duration),
    /// The claim held the lock already, and still does, for that long.
    AlreadyHeld(Duration),
    /// The claim acquires the lock under another token, for that long from now, and leaves the queue.
    GrantedAs(Token, Duration),
    Queued(QueueStatus),
    /// The request was ignored: it came too late, or after the claim was canceled.
    Stale,
}

#[derive(Clone, Debug)]
pub(crate) struct QueueStatus {
    /// When the reply was sent.
    pub(crate) server_time: ServerTime,
    /// The time until a lease ends that keeps the claim from acquiring the lock.
    pub(crate) holder_ttl: Duration,
    /// The number of claims ahead of this one.
    pub(crate) position: u64,
    /// `true` if other claims wait in the queue.
    pub(crate) has_others: bool,
    /// Who is in the way, as far as the reply says.
    pub(crate) holder: Holder,
    /// The token that holds the lock alone, as far as the reply says.
    pub(crate) sole: Option<Token>,
    /// The server, or the engine, has recalled the lock by itself if it may be [kept](Self::keeper).
    pub(crate) is_recalled: bool,
    /// When the claim asks again, if the engine knows better than its place says.
    pub(crate) poll_in: Option<Duration>,
}

impl QueueStatus {
    /// Returns the token from which the claim, whose status this is, recalls the lock.
    pub(crate) fn keeper(&self, claim: &Claim) -> Option<Token> {
        let recalls = |holder: &Token| {
            holder.is_recallable()
                && holder.limit().is_exclusive()
                && holder.process() != claim.token.process()
        };
        self.sole
            .filter(|holder| self.position < RECALLING && recalls(holder))
    }
}

/// A point in an engine's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerTime(pub(crate) Duration);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessId;

    #[test]
    fn a_lock_is_recalled_from_another_process_that_may_keep_it() {
        let draw = || Token::draw(ProcessId::random());
        let (holder, claim) = (
            draw(),
            Claim {
                name: "lock:row".into(),
                token: draw(),
                ttl: Duration::from_secs(1),
                replicas: 0,
            },
        );
        let recallable = holder.recallable_if(true);
        for (position, sole, is_keeper) in [
            (2, recallable, true),
            (3, recallable, false),
            (0, holder, false),
            (0, recallable.with_limit(Limit::UNLIMITED), false),
            (0, claim.token.recallable_if(true), false),
        ] {
            let status = QueueStatus {
                server_time: ServerTime(Duration::ZERO),
                holder_ttl: Duration::ZERO,
                position,
                has_others: false,
                holder: Holder::default(),
                sole: Some(sole),
                is_recalled: false,
                poll_in: None,
            };
            let expected = is_keeper.then_some(sole);
            assert_eq!(status.keeper(&claim), expected, "{sole} {position}");
        }
    }
}
