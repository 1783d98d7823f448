//! A connection that listens; or instead of it the time for which none is made, since no message arrives.

use crate::engine::common::upkeep::Kept;
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::timeouts::GRANT_TTL;
use crate::util::time::{elapsed_since, sleep_until};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) enum Subscription {
    Listening(Listening),
    /// Until then claims poll.
    Polling(Instant),
}

pub(crate) struct Listening {
    pub(crate) since: Instant,
    pub(crate) hearing: Arc<watch::Sender<Hearing>>,
    pub(crate) handler: EventHandler,
    pub(crate) _connection: Box<Connection>,
}

/// Whether messages arrive on a connection.
#[derive(PartialEq, Eq)]
pub(crate) enum Hearing {
    /// The message to itself has not arrived yet.
    Unknown,
    Proven,
    /// The connection has ended, or is to be replaced.
    Ended,
}

impl Subscription {
    /// Returns `true` if messages arrive until the connection has ended.
    pub(crate) fn hears(&self) -> bool {
        matches!(self, Subscription::Listening(_))
    }

    /// Ends the connection, unless the message that was missed may have been sent before it was made: a grant
    /// that lasts is no news.
    pub(crate) fn replace(&self) {
        if let Subscription::Listening(it) = self
            && elapsed_since(it.since) > GRANT_TTL
        {
            it.hearing.send_replace(Hearing::Ended);
        }
    }
}

impl Kept for Subscription {
    fn has_ended(&self) -> bool {
        matches!(self, Subscription::Listening(it) if *it.hearing.borrow() == Hearing::Ended)
    }

    /// Then lets all claims ask again: one with a channel to which no process listens counts as dead.
    async fn ended(&self) {
        match self {
            Subscription::Listening(it) => {
                let mut hearing = it.hearing.subscribe();
                let _ = hearing.wait_for(|it| *it == Hearing::Ended).await;
                (it.handler)(EngineEvent::Resubscribed);
            }
            Subscription::Polling(until) => sleep_until(*until).await,
        }
    }
}
