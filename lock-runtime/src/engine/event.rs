//! Events that an engine reports without a request.

use crate::engine::request::ServerTime;
use crate::engine::token::Token;
use std::sync::Arc;
use std::time::Duration;

/// Who is told when the engine has [`News`]. It must not block.
pub(crate) type Ear = Arc<dyn Fn(News) + Send + Sync>;

/// What an engine tells without being asked.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// The lock has been granted to a claim that waits.
    Granted(Grant),
    /// A claim is the first in its queue now.
    First(Token),
    /// The lock that a claim waits for may be free now.
    Free(Token),
    /// A claim that stood alone in its queue no longer does.
    Others(Token),
    /// Something may have been missed.
    Resumed,
}

#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) name: Arc<str>,
    pub(crate) token: Token,
    pub(crate) at: ServerTime,
    pub(crate) lease: Duration,
}
