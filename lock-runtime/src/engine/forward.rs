//! Engines in front of another one, which pass everything on.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::operations::{Operations, Reading, ReportPace, StoredReport, Taken};
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::engine::traits::{Engine, Shard};
use crate::engine::view::View;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::process::ProcessId;
#[cfg(feature = "postgres")]
use crate::transaction_proof::TransactionProof;
use crate::util::clock::Timestamp;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An engine in front of another one.
pub(crate) trait Forward: Send + Sync {
    /// Returns the other engine, once it is there.
    fn behind(&self) -> Option<&dyn Engine>;

    /// Sends a request to the other engine, unless it does not get through by the deadline.
    fn send<'a, T: Send + 'a>(
        &'a self,
        deadline: Instant,
        request: impl FnOnce(&'a dyn Engine) -> EngineFuture<'a, T> + Send + 'a,
    ) -> EngineFuture<'a, T>;

    /// Returns the wait for the other engine, as [`Engine::first_connection`] does.
    fn until_open(&self, _deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        None
    }

    /// Called when the engine is to listen before the other one is there.
    fn listen_later(&self) {}

    /// Returns what an inspection finds before the other engine is there.
    fn inspect_early(&self) -> Inspection {
        Inspection::default()
    }

    /// Called at the shutdown before the other engine is there.
    fn close_early(&self) {}
}

impl<F: Forward> Operations for F {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        self.send(deadline, move |engine| engine.ping(deadline))
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        self.send(deadline, move |engine| engine.views(names, most, deadline))
    }

    fn has_index(&self) -> bool {
        self.behind().is_none_or(|engine| engine.has_index())
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        self.send(reading.next(), move |engine| {
            engine.names(prefix, most, reading)
        })
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        self.send(deadline, move |engine| {
            engine.report(process, report, deadline)
        })
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        self.send(reading.next(), move |engine| engine.reports(of, reading))
    }

    fn report_pace(&self) -> ReportPace {
        self.behind()
            .map_or(ReportPace::REGULAR, |engine| engine.report_pace())
    }

    fn shown_as(&self, token: Token) -> Token {
        self.behind().map_or(token, |engine| engine.shown_as(token))
    }

    fn listen(&self) {
        match self.behind() {
            Some(engine) => engine.listen(),
            None => self.listen_later(),
        }
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        self.send(deadline, move |engine| engine.ask(text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        self.send(deadline, move |engine| {
            engine.take(name, token, at_least, deadline)
        })
    }
}

impl<F: Forward> Engine for F {
    fn first_connection(&self, deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        self.until_open(deadline)
    }

    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        self.send(deadline, move |engine| {
            engine.acquire(attempt, supervisor, deadline)
        })
    }

    fn in_one_request(&self, name: &str, other: &str) -> bool {
        self.behind()
            .is_some_and(|engine| engine.in_one_request(name, other))
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        self.send(deadline, move |engine| {
            engine.enqueue(claim, valid_until, deadline)
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.send(deadline, move |engine| {
            engine.cancel(claim, in_flight, deadline)
        })
    }

    fn on_missed_grant(&self) {
        if let Some(engine) = self.behind() {
            engine.on_missed_grant();
        }
    }

    fn is_alone(&self) -> bool {
        self.behind().is_some_and(|engine| engine.is_alone())
    }

    fn hears_recalls(&self, name: &str) -> bool {
        self.behind()
            .is_some_and(|engine| engine.hears_recalls(name))
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        self.send(deadline, move |engine| engine.release(claim, deadline))
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        match self.behind() {
            Some(engine) => engine.release_in_background(release),
            None => Err(release),
        }
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        self.send(deadline, move |engine| engine.renew(claims, deadline))
    }

    fn shard_of(&self, name: &str) -> Shard {
        let first = Shard { server: 0, slot: 0 };
        self.behind().map_or(first, |engine| engine.shard_of(name))
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.behind()?.node_of(name)
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        self.send(deadline, move |engine| {
            engine.fencing_token(claim, deadline)
        })
    }

    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.send(deadline, move |engine| {
            engine.raise_fencing_token(claim, token, deadline)
        })
    }

    #[cfg(feature = "postgres")]
    fn prove<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Option<TransactionProof>> {
        self.send(deadline, move |engine| engine.prove(claims, deadline))
    }

    #[cfg(feature = "postgres")]
    fn refuses_proof(&self) -> Option<&'static str> {
        self.behind()?.refuses_proof()
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        self.send(deadline, move |engine| {
            engine.downgrade(claim, to, deadline)
        })
    }

    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        match self.behind() {
            Some(engine) => engine.lease(token, sent, duration),
            None => Lease::from_request(sent, duration),
        }
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        self.behind()
            .map_or(Ok(()), |engine| engine.validate(key, options))
    }

    fn refuses_downgrade(&self) -> Option<&'static str> {
        self.behind()?.refuses_downgrade()
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        match self.behind() {
            Some(engine) => engine.inspect(ttl, replicas),
            None => Box::pin(ready(self.inspect_early())),
        }
    }

    fn drain(&self) -> EngineFuture<'_, ()> {
        match self.behind() {
            Some(engine) => engine.drain(),
            None => {
                self.close_early();
                Box::pin(ready(Ok(())))
            }
        }
    }
}
