//! The connection for requests, which a task on the I/O thread makes, uses, and replaces when it breaks.
//!
//! Requests that arrive while rounds of statements are under way go out together in the next one. A connection that is not
//! shared has the next one before the replies to the last: the server carries out what is sent on one connection in its
//! order, so that no request overtakes another. Nothing is sent twice.

use crate::engine::common::pace::{MIN_TIMEOUT, Pace};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::address::Target;
use crate::engine::postgres::conn::batch::cleaning::Cleaning;
use crate::engine::postgres::conn::batch::pending_tokens::Unanswered;
use crate::engine::postgres::conn::batch::queue::Queue;
use crate::engine::postgres::conn::batch::recent_releases::{RecentReleases, Released};
use crate::engine::postgres::conn::batch::request::{Release, ReleaseReply, Request};
use crate::engine::postgres::conn::batch::rounds::{Carried, Rounds, Sent};
use crate::engine::postgres::conn::batch::statements::Round;
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::postgres::conn::prepared::Prepared;
use crate::engine::postgres::conn::stale_backends::StaleBackends;
use crate::engine::postgres::conn::trial::try_waiting;
use crate::engine::postgres::wire::error::connecting;
use crate::engine::postgres::wire::values::micros;
use crate::engine::timeouts::Timeouts;
use crate::util::clock::{Clock, Timestamp};
use crate::util::io_thread::{IoThread, kept};
use crate::util::time::{deadline_in, now, timeout_at};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

/// How much longer than the command timeout the server may take before it ignores a request.
const VOID_MARGIN: Duration = Duration::from_millis(500);
/// How many locks a round is about: few enough that no statement takes long, or needs many of the server's locks.
const MAX_SIZE: usize = 100;
/// … behind a pooler, where one statement is sent after the other.
const MAX_SIZE_POOLED: usize = 20;
/// How many rounds are under way at most: the server carries out one while the replies to the other are delivered.
const MAX_ROUNDS: usize = 2;

/// Connects, and keeps the connection alive until the queue is closed.
pub(crate) async fn drive(
    io: IoThread,
    clock: Clock,
    target: Arc<Target>,
    timeouts: Timeouts,
    queue: Arc<Queue>,
) -> Result<(), EngineError> {
    let pace = Pace::new(&target.server, "requests", MIN_TIMEOUT, &timeouts);
    let (pace, first) = pace.awaited();
    let mut driver = Driver {
        io,
        clock,
        target,
        timeouts,
        queue,
        unanswered: Arc::default(),
        released: RecentReleases::default(),
        stale: StaleBackends::default(),
        told: Vec::new(),
        cleaning: Cleaning::default(),
        pace,
    };
    io.spawn_detached(kept(async move || driver.run().await));
    first.result().await
}

struct Driver {
    io: IoThread,
    clock: Clock,
    target: Arc<Target>,
    timeouts: Timeouts,
    queue: Arc<Queue>,
    unanswered: Arc<Unanswered>,
    released: RecentReleases,
    stale: StaleBackends,
    /// Messages that are to be sent.
    told: Vec<String>,
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
                    self.released.broke(now());
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
        let read = self.clock.now();
        let is_first = !self.timeouts.is_open();
        let target = self.target.clone();
        let deadline = deadline_in(timeout);
        let mut connection =
            Connection::open(self.io, &target.server, &target, timeout, wake).await?;
        let client = &connection.client;
        let prepare = async {
            if self.stale.end(client).await? {
                self.unanswered.processes_ended();
            }
            let schema = &target.schema;
            schema.prepare(client, target.create_schema).await?;
            // A connection that replaces another one has locks to renew, which need no queue.
            if is_first {
                try_waiting(client, schema).await?;
            }
            match connection.backend.is_own {
                true => Prepared::new(client, schema)
                    .await
                    .map_err(|error| connecting(&error)),
                false => Ok(Prepared::default()),
            }
        };
        connection.prepared = match timeout_at(deadline, prepare).await {
            Ok(prepared) => prepared?,
            Err(_) => {
                let words = format!("the server did not reply within {timeout:?}");
                return Err(EngineError::new(EngineErrorKind::NotConnected, words));
            }
        };
        let micros = connection.backend.at;
        Ok((connection, ServerClock { read, micros }))
    }

    /// Sends requests until the connection breaks, or all are answered and no more will come.
    async fn serve(&mut self, connection: &Connection, mut clock: ServerClock) {
        let (target, unanswered) = (self.target.clone(), self.unanswered.clone());
        let (most, size) = match connection.backend.is_own {
            true => (MAX_ROUNDS, MAX_SIZE),
            false => (1, MAX_SIZE_POOLED),
        };
        let mut rounds = Rounds::default();
        loop {
            while rounds.0.len() < most
                && self.is_due(&rounds)
                && let Some((requests, carried)) = self.take(size)
            {
                let at = self.clock.now();
                let void_after = clock.after(at, self.timeouts.command + VOID_MARGIN);
                let round = Round::new(connection, &target.schema, void_after, &unanswered);
                let deadline = deadline_in(self.timeouts.command);
                let sent = Sent::new(round, requests, carried, at, deadline);
                rounds.0.push_back(sent);
            }
            if rounds.0.is_empty() && (self.queue.is_closed() || connection.client.is_closed()) {
                return;
            }
            let queue = self.queue.clone();
            let has_room = rounds.0.len() < most;
            let new = async {
                match has_room {
                    true => queue.changed.notified().await,
                    false => pending().await,
                }
            };
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

    /// Returns `true` if another round may begin: one that is as large as the first under way, since a small one costs the
    /// server more for each lock. Messages do not wait.
    fn is_due(&self, rounds: &Rounds<'_>) -> bool {
        let least = rounds.0.front().map_or(0, |sent| sent.size);
        self.queue.is_due(least) || !self.told.is_empty()
    }

    /// Takes what is to be sent, and of it what is to be sent again if it is not answered.
    fn take(&mut self, most: usize) -> Option<(Vec<Request>, Carried)> {
        let repeats = self.released.take_repeats(most);
        let mut requests = self.queue.take(most);
        let told = std::mem::take(&mut self.told);
        if requests.is_empty() && repeats.is_empty() && told.is_empty() {
            return None;
        }
        requests.extend(repeats.iter().cloned().map(repeat));
        requests.extend(self.cleaning.request());
        if !told.is_empty() {
            requests.push(Request::Tell(told.clone()));
        }
        Some((requests, Carried { repeats, told }))
    }

    /// Takes what has come of a round. Returns `false` if the connection is of no more use.
    fn ended(&mut self, sent: Sent<'_>, in_time: bool, clock: &mut ServerClock) -> bool {
        let outcome = sent.round.take_outcome();
        let goes_on = in_time && !outcome.ends_connection;
        if !goes_on {
            sent.unanswered(&outcome.answered);
            self.released.put_back(sent.carried.repeats);
            self.told.extend(sent.carried.told);
        }
        self.released.add(now(), outcome.released);
        self.told.extend(outcome.told);
        if let Some(micros) = outcome.at {
            let read = sent.at;
            *clock = ServerClock { read, micros };
        }
        goes_on
    }
}

fn repeat((name, token): Released) -> Request {
    Request::Release(Release {
        name,
        token,
        leaves: false,
        reply: ReleaseReply::Repeat,
    })
}
