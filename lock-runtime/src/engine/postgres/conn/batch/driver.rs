//! The task on the I/O thread that makes the connection for requests, uses it, and replaces it when it
//! breaks.
//!
//! Requests that arrive while rounds are under way go out together in the next one. A connection that is not
//! shared has the next one before the replies to the last: the server carries out the requests of one
//! connection in their order, so that none overtakes another. No request is sent twice.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::postgres::address::Address;
use crate::engine::postgres::conn::batch::cleaning::Cleaning;
use crate::engine::postgres::conn::batch::pending_tokens::PendingTokens;
use crate::engine::postgres::conn::batch::queue::RequestQueue;
use crate::engine::postgres::conn::batch::request::Request;
use crate::engine::postgres::conn::batch::round::Round;
use crate::engine::postgres::conn::batch::rounds::{Rounds, Sent};
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::postgres::conn::prepared::Prepared;
use crate::engine::postgres::conn::schema_setup::{check_rights, set_up};
use crate::engine::postgres::conn::stale_backends::StaleBackends;
use crate::engine::postgres::conn::trial::try_waiting;
use crate::engine::postgres::wire::error::connecting;
use crate::engine::postgres::wire::values::micros;
use crate::engine::timeouts::Timeouts;
use crate::util::clock::{Clock, Timestamp};
use crate::util::io_thread::{IoThread, kept};
use crate::util::time::{deadline_in, timeout_at};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How much longer than the command timeout the server may take before it ignores a request.
const VOID_MARGIN: Duration = Duration::from_millis(500);
/// How many locks a round is about: few enough that no statement takes long, or needs many of the server's
/// locks.
const MAX_SIZE: usize = 100;
/// … behind a pooler, where one statement is sent after the other.
const MAX_SIZE_POOLED: usize = 20;
/// How many rounds are under way at most: the server carries out one while the replies to the other are
/// delivered.
const MAX_ROUNDS: usize = 2;

/// Connects, and keeps the connection up until the queue is closed.
pub(crate) async fn drive(
    io: IoThread,
    clock: Clock,
    address: Arc<Address>,
    timeouts: Timeouts,
    queue: Arc<RequestQueue>,
    handler: EventHandler,
) -> Result<(), EngineError> {
    let of = (&address.servers as _, "requests");
    let pace = Pace::new(of, MIN_TIMEOUT, &timeouts, handler);
    let (pace, first) = pace.awaited();
    let mut driver = Driver {
        io,
        clock,
        address,
        timeouts,
        queue,
        pending: Arc::default(),
        stale: StaleBackends::default(),
        messages: Vec::new(),
        cleaning: Cleaning::default(),
        pace,
    };
    io.spawn_detached(kept(async move || driver.run().await));
    first.result().await
}

struct Driver {
    io: IoThread,
    clock: Clock,
    address: Arc<Address>,
    timeouts: Timeouts,
    queue: Arc<RequestQueue>,
    pending: Arc<PendingTokens>,
    stale: StaleBackends,
    /// Messages that are to be sent to other processes.
    messages: Vec<String>,
    cleaning: Cleaning,
    pace: Pace,
}

/// A reading of the server's clock, which was made after that instant.
struct ServerClock {
    read: Timestamp,
    micros: i64,
}

impl ServerClock {
    /// Returns the server's time at least that long after `now`.
    fn after(&self, now: Timestamp, time: Duration) -> i64 {
        let later = now.elapsed_since(self.read) + time;
        self.micros.saturating_add(micros(later))
    }
}

impl Driver {
    async fn run(&mut self) {
        while !self.queue.is_closed() {
            let timeout = self.pace.next_timeout();
            match self.connect(timeout).await {
                Ok((connection, clock)) => {
                    self.queue.set_up();
                    self.pace.made();
                    self.serve(&connection, clock).await;
                    self.stale.add(connection.backend);
                    drop(connection);
                    self.pace.ended().await;
                }
                Err(error) => {
                    let error = self.pace.failed(error);
                    self.queue.set_down(&error);
                    self.pace.pause().await;
                }
            }
        }
    }

    async fn connect(
        &mut self,
        timeout: Duration,
    ) -> Result<(Connection, ServerClock), EngineError> {
        let queue = self.queue.clone();
        let wake = Box::new(move |message: Option<_>| {
            if message.is_none() {
                queue.changed.notify_one();
            }
        });
        let Address {
            servers,
            credentials,
            ..
        } = &*self.address;
        let login = credentials.get(self.io, self.timeouts.credentials_by());
        let address = (&*self.address, login.await?);
        let (read, deadline) = (self.clock.now(), self.timeouts.end_of_try(timeout));
        let open = Connection::open(self.io, servers, address, deadline, wake);
        let mut connection = open.await?;
        let Ok(prepared) = timeout_at(deadline, self.prepare(&connection, deadline)).await else {
            let words = format!("the server did not reply within {timeout:?}");
            return Err(EngineError::new(EngineErrorKind::NotConnected, words));
        };
        connection.prepared = prepared?;
        let micros = connection.backend.at;
        Ok((connection, ServerClock { read, micros }))
    }

    /// Makes a connection fit for requests: ends the backends of earlier ones, and checks that the schema is
    /// there.
    async fn prepare(
        &mut self,
        connection: &Connection,
        deadline: Instant,
    ) -> Result<Prepared, EngineError> {
        let client = &connection.client;
        if self.stale.end(client).await? {
            self.pending.backends_ended();
        }
        let Address {
            schema,
            create_schema,
            check_permissions,
            ..
        } = &*self.address;
        set_up(client, schema, *create_schema, deadline).await?;
        if *check_permissions {
            check_rights(client, schema).await?;
            // A connection that replaces another one has locks to renew, which need no queue.
            if !self.timeouts.is_open() {
                try_waiting(client, schema).await?;
            }
        }
        match connection.backend.is_own {
            true => Prepared::new(client, schema)
                .await
                .map_err(|error| connecting(&error)),
            false => Ok(Prepared::default()),
        }
    }

    /// Sends requests until the connection breaks, or all have their replies and no more will come.
    async fn serve(&mut self, connection: &Connection, mut clock: ServerClock) {
        let (address, queue) = (self.address.clone(), self.queue.clone());
        let pending = self.pending.clone();
        let (most, size) = match connection.backend.is_own {
            true => (MAX_ROUNDS, MAX_SIZE),
            false => (1, MAX_SIZE_POOLED),
        };
        let mut rounds = Rounds::default();
        loop {
            while rounds.0.len() < most
                && self.is_due(&rounds)
                && let Some((requests, messages)) = self.take(size)
            {
                let at = self.clock.now();
                let void_after = clock.after(at, self.timeouts.command + VOID_MARGIN);
                let round = Round::new(connection, &address.schema, void_after, &pending);
                let deadline = deadline_in(self.timeouts.command);
                let sent = Sent::new(round, requests, messages, at, deadline);
                rounds.0.push_back(sent);
            }
            if rounds.0.is_empty() && (queue.is_closed() || connection.client.is_closed()) {
                return;
            }
            let new = change(&queue, rounds.0.len() < most);
            if let Some((sent, in_time)) = rounds.next(new).await
                && !self.ended(sent, in_time, &mut clock)
            {
                break;
            }
        }
        for sent in rounds.0 {
            self.ended(sent, false, &mut clock);
        }
    }

    /// Returns `true` if another round may begin: one that is as large as the first under way, since a small
    /// one costs the server more for each lock. Messages do not wait.
    fn is_due(&self, rounds: &Rounds<'_>) -> bool {
        let least = rounds.0.front().map_or(0, |sent| sent.size);
        self.queue.is_due(least) || !self.messages.is_empty()
    }

    /// Takes the requests of a round, for up to `most` locks, and the messages among them that are due to
    /// other requests.
    fn take(&mut self, most: usize) -> Option<(Vec<Request>, Vec<String>)> {
        let mut requests = self.queue.take(most);
        let messages = std::mem::take(&mut self.messages);
        if requests.is_empty() && messages.is_empty() {
            return None;
        }
        requests.extend(self.cleaning.request());
        if !messages.is_empty() {
            requests.push(Request::Notify(messages.clone()));
        }
        Some((requests, messages))
    }

    /// Takes the outcome of a round. Returns `false` if the connection is of no more use.
    fn ended(&mut self, sent: Sent<'_>, in_time: bool, clock: &mut ServerClock) -> bool {
        let outcome = sent.round.take_outcome();
        let goes_on = in_time && !outcome.ends_connection;
        if !goes_on {
            sent.keep_pending(&outcome.settled);
            self.messages.extend(sent.messages);
        }
        self.messages.extend(outcome.messages);
        if let Some(micros) = outcome.at {
            let read = sent.at;
            *clock = ServerClock { read, micros };
        }
        goes_on
    }
}

/// Waits until there is another round to send, or the connection has ended; without room for a round,
/// forever.
async fn change(queue: &RequestQueue, has_room: bool) {
    match has_room {
        true => queue.changed.notified().await,
        false => pending().await,
    }
}
