//! Listens for messages to this process, and to all, while it waits for a lock, or until it ends.
//!
//! Behind a pooler no message arrives, and this process asks instead. It also does until a message has arrived that it
//! sends to itself over the connection for requests, which may lead to another server.

use crate::engine::event::EventHandler;
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::batch::queue::RequestQueue;
use crate::engine::postgres::conn::listen::status::{SharedStatus, Status};
use crate::engine::postgres::conn::listen::subscriber::Subscriber;
use crate::engine::postgres::conn::listen::subscription::Event;
use crate::engine::timeouts::Timeouts;
use crate::process::ProcessId;
use crate::util::io_thread::{IoThread, kept};
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long a claim waits for the listener before it enters a queue.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) struct Listener {
    io: IoThread,
    shared: Arc<SharedStatus>,
    events: mpsc::UnboundedSender<Event>,
}

impl Listener {
    /// `queue`: takes the message to itself.
    pub(crate) fn start(
        io: IoThread,
        address: Arc<Address>,
        timeouts: Timeouts,
        process: ProcessId,
        queue: Arc<RequestQueue>,
        handler: EventHandler,
    ) -> Listener {
        let shared = Arc::new(SharedStatus::new());
        let of = (process, shared.clone());
        let mut subscriber = Subscriber::new(io, address, timeouts, of, queue, handler);
        let events = subscriber.sender();
        io.spawn_detached(kept(async move || subscriber.run().await));
        Listener { io, shared, events }
    }

    /// Returns the channel, if messages arrive there.
    pub(crate) async fn channel(&self) -> Option<Arc<str>> {
        self.shared.touch();
        let mut status = self.shared.status.subscribe();
        let present = status.borrow().clone();
        if matches!(present, Status::Idle | Status::Starting) {
            if present == Status::Idle {
                let _ = self.events.send(Event::Wanted);
            }
            let settled =
                status.wait_for(|status| matches!(status, Status::Listening(_) | Status::Down));
            let _ = self.io.timeout_at(deadline_in(PATIENCE), settled).await;
        }
        match &*self.shared.status.borrow() {
            Status::Listening(channel) => Some(channel.clone()),
            _ => None,
        }
    }

    /// Listens from now on, until it is dropped.
    pub(crate) fn keep(&self) {
        if self.shared.keep() {
            let _ = self.events.send(Event::Wanted);
        }
    }

    /// Returns `true` if messages arrive now. Listens from now on, since a process that keeps a lock makes no request.
    pub(crate) fn hears(&self) -> bool {
        self.keep();
        self.shared.is_listening()
    }

    /// Replaces the connection. Called when an expected message has not arrived.
    pub(crate) fn replace(&self) {
        let _ = self.events.send(Event::Replace);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Closed);
    }
}
