//! Listens for messages to this process, and to all, from the first claim that waits on.
//!
//! Behind a pooler no message arrives, and this process asks instead.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::common::upkeep::Upkeep;
use crate::engine::postgres::conn::listen::reconnect::Subscriber;
use crate::engine::postgres::conn::listen::subscription::Subscription;
use crate::util::time::deadline_in;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a claim waits for the connection before it enters a queue.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) struct Listener {
    subscriber: Subscriber,
    connection: OnceLock<Upkeep<Subscription>>,
}

impl Listener {
    pub(crate) fn new(subscriber: Subscriber) -> Listener {
        let connection = OnceLock::new();
        Listener {
            subscriber,
            connection,
        }
    }

    /// Returns the channel, if messages arrive there.
    pub(crate) async fn channel(&self) -> Option<&str> {
        let connection = self.begin().connection_by(deadline_in(PATIENCE), false);
        let hears = connection.await.is_ok_and(|it| it.hears());
        hears.then_some(&*self.subscriber.channel)
    }

    /// Listens from now on, until it is dropped.
    pub(crate) fn begin(&self) -> &Upkeep<Subscription> {
        self.connection.get_or_init(|| {
            let subscriber = self.subscriber.clone();
            let of = (&subscriber.address.listen as _, "messages");
            // Without it waiters ask, so that the server does not count as down.
            let handler = Arc::new(|_| {});
            let pace = Pace::new(of, MIN_TIMEOUT, &subscriber.timeouts, handler);
            Upkeep::start(subscriber.io, pace, subscriber)
        })
    }

    /// Returns `true` if messages arrive now. Listens from now on, since a process that keeps a lock makes no
    /// request.
    pub(crate) fn hears(&self) -> bool {
        self.begin().present().is_some_and(|it| it.hears())
    }

    /// Replaces the connection. Called when an expected message has not arrived.
    pub(crate) fn replace(&self) {
        if let Some(present) = self.connection.get().and_then(Upkeep::present) {
            present.replace();
        }
    }
}
