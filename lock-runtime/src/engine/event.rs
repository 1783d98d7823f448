//! The events that an engine reports without a request.

use crate::engine::error::EngineError;
use crate::engine::recall::Recall;
use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;

/// A callback for every [`EngineEvent`]. It must not block.
pub(crate) type EventHandler = Arc<dyn Fn(EngineEvent) + Send + Sync>;

/// An event that an engine reports without a request.
#[derive(Clone, Debug)]
pub(crate) enum EngineEvent {
    /// The lock has been granted to a waiting claim.
    Granted(Grant),
    /// A claim is now at the front of its queue.
    AtFront(Token),
    /// The lock that a claim waits for may be free.
    MayBeFree(Token),
    /// A claim that was alone in its queue no longer is.
    MoreWaiters(Token),
    /// Another process waits for a lock that a [recallable](Token::recallable) token of this one holds, or is
    /// about to.
    Recalled(Recall),
    /// Another process asks this one for something, as others, too. Anything may be in it.
    Asked(Arc<str>),
    /// Events may have been missed.
    Resubscribed,
    /// Another server is the master now: it may not know what this process holds.
    MasterChanged,
    /// A connection to that server has broken, and could not be replaced at once.
    ConnectionBroken(Arc<str>, EngineError),
    /// A broken connection to that server was replaced, or is given up.
    ConnectionMended(Arc<str>),
}

#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) server_time: ServerTime,
    pub(crate) lease: Duration,
}
