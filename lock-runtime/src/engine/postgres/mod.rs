//! Locks in a PostgreSQL database: a row for each holder, with the end of its lease by the server's clock.
//!
//! Each request is one call of a function of the schema, and so one round trip and one transaction.

pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod cleaning;
pub(crate) mod connection;
pub(crate) mod earlier;
pub(crate) mod error;
pub(crate) mod gather;
pub(crate) mod listener;
pub(crate) mod messages;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod prepared;
pub(crate) mod process_id;
pub(crate) mod queue;
pub(crate) mod recent;
pub(crate) mod request;
pub(crate) mod round;
pub(crate) mod rounds;
pub(crate) mod schema;
pub(crate) mod servers;
pub(crate) mod session;
pub(crate) mod statements;
pub(crate) mod subscriber;
pub(crate) mod subscription;
pub(crate) mod target;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod trial;
pub(crate) mod unanswered;
pub(crate) mod values;

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor, UnansweredAcquire};
use crate::engine::error::EngineError;
use crate::engine::event::EventHandler;
use crate::engine::inspection::Inspection;
use crate::engine::postgres::calls::{Calls, release};
use crate::engine::postgres::check::inspect;
use crate::engine::postgres::listener::Listener;
use crate::engine::postgres::request::{ReleaseReply, UnansweredRelease};
use crate::engine::postgres::session::Session;
use crate::engine::postgres::target::Target;
use crate::engine::postgres::values::unexpected;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::transaction_proof::TransactionProof;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct PostgresEngine {
    io: IoThread,
    target: Arc<Target>,
    timeouts: Timeouts,
    calls: Calls,
    listener: Listener,
    _session: Session,
}

impl PostgresEngine {
    /// Connects, and fails if that takes longer than the connect timeout.
    pub(crate) async fn connect(
        io: IoThread,
        clock: Clock,
        target: Target,
        timeouts: Timeouts,
        handler: EventHandler,
    ) -> Result<PostgresEngine, EngineError> {
        let target = Arc::new(target);
        let session = Session::start(io, clock, target.clone(), timeouts.clone()).await?;
        let queue = session.queue.clone();
        let listener =
            Listener::start(io, target.clone(), timeouts.clone(), queue.clone(), handler);
        Ok(PostgresEngine {
            io,
            target,
            timeouts,
            calls: Calls { io, queue },
            listener,
            _session: session,
        })
    }
}

impl Engine for PostgresEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(async move {
            let token = Token::random().with_limit(attempt.limit);
            let unanswered = UnansweredAcquire::new(attempt, token, supervisor);
            let acquired = self.calls.acquire(attempt, token, deadline).await;
            unanswered.answered(acquired)
        })
    }

    fn in_one_request(&self, _name: &str, _other: &str) -> bool {
        true
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        Box::pin(async move {
            let channel = self.listener.channel().await;
            let enqueued = self
                .calls
                .enqueue(claim, channel.as_deref(), valid_until, deadline);
            enqueued.await
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(self.calls.release(claim, true, deadline))
    }

    fn on_missed_grant(&self) {
        self.listener.replace();
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(self.calls.release(claim, false, deadline))
    }

    fn release_in_background(
        &self,
        background: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        let claim = background.claim.clone();
        let reply = ReleaseReply::Background(UnansweredRelease(Some(background)));
        self.calls.queue.push(release(&claim, false, reply));
        Ok(())
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move { Ok(self.calls.renew(claims, deadline).await) })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(self.calls.fence(claim, deadline))
    }

    fn prove<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Option<TransactionProof>> {
        Box::pin(async move {
            let numbers = self.calls.numbers(claims, deadline).await?;
            let statement = "SELECT distributed_lock.ensure($1, $2)";
            let statement = self.target.schema.sql(statement);
            Ok(numbers.map(|(names, numbers)| TransactionProof::new(statement, names, numbers)))
        })
    }

    fn refuses_proof(&self) -> Option<&'static str> {
        None
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(self.calls.downgrade(claim, to, deadline))
    }

    fn inspect(
        &self,
        _ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(async move {
            let timeout = self.timeouts.connect;
            let work = inspect(self.io, self.target.clone(), timeout, replicas);
            self.io.spawn(work).await.unwrap_or_else(|_| {
                let mut failed = Inspection::default();
                let error = unexpected("what the check can't read");
                failed.add_unreachable(&self.target.to_string().into(), &error);
                failed
            })
        })
    }
}
