//! Engines in front of another one. Their requests are passed on; this is what takes no round trip.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::report_pace::ReportPace;
use crate::engine::request::EngineFuture;
use crate::engine::requests::{Operations, Requests};
use crate::engine::token::Token;
use crate::engine::traits::{Engine, Shard};
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// An engine in front of another one.
pub(crate) trait Forward: Requests + Operations {
    /// Returns the other engine, once it is there.
    fn behind(&self) -> Option<&dyn Engine>;

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
}

impl<F: Forward> Engine for F {
    fn first_connection(&self, deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        self.until_open(deadline)
    }

    fn in_one_request(&self, name: &str, other: &str) -> bool {
        self.behind()
            .is_some_and(|engine| engine.in_one_request(name, other))
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

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        match self.behind() {
            Some(engine) => engine.release_in_background(release),
            None => Err(release),
        }
    }

    fn counts_alone(&self) -> bool {
        self.behind().is_some_and(Engine::counts_alone)
    }

    fn shard_of(&self, name: &str) -> Shard {
        let first = Shard { server: 0, slot: 0 };
        self.behind().map_or(first, |engine| engine.shard_of(name))
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.behind()?.node_of(name)
    }

    #[cfg(any(feature = "postgres", feature = "store"))]
    fn refuses_proof(&self) -> Option<&'static str> {
        self.behind()?.refuses_proof()
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

    fn has_index(&self) -> bool {
        self.behind().is_none_or(|engine| engine.has_index())
    }

    fn report_pace(&self) -> ReportPace {
        self.behind()
            .map_or(ReportPace::REGULAR, |engine| engine.report_pace())
    }

    fn listen(&self) {
        match self.behind() {
            Some(engine) => engine.listen(),
            None => self.listen_later(),
        }
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
}
