//! An engine whose servers could not be reached when its manager was made.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::operations::{Operations, ReportPace, StoredReport, Taken};
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
use crate::util::io_thread::IoThread;
use once_cell::sync::OnceCell;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Forwards everything to the engine, once that is open. Until then every request fails, and nothing is sent.
pub(crate) struct LateEngine {
    io: IoThread,
    /// The servers, without credentials.
    address: Arc<str>,
    engine: OnceCell<Arc<dyn Engine>>,
    /// Why it is not open.
    failure: watch::Sender<Option<EngineError>>,
    /// It must listen from the beginning.
    listens: AtomicBool,
}

impl LateEngine {
    /// Creates an engine that is not open because of that error.
    pub(crate) fn new(io: IoThread, address: Arc<str>, error: LockError) -> LateEngine {
        LateEngine {
            io,
            address,
            engine: OnceCell::new(),
            failure: watch::Sender::new(Some(failure(error))),
            listens: AtomicBool::new(false),
        }
    }

    /// Records why it is not open now.
    pub(crate) fn failed(&self, error: LockError) {
        self.failure.send_if_modified(|present| {
            // A shutdown is for good, and a try may be under way meanwhile.
            let is_over = present.as_ref().is_some_and(is_shutdown);
            if !is_over {
                *present = Some(failure(error));
            }
            !is_over
        });
    }

    /// Forwards to that engine from now on.
    pub(crate) fn open(&self, engine: Arc<dyn Engine>) {
        let engine = self.engine.get_or_init(|| engine);
        if self.listens.load(Ordering::SeqCst) {
            engine.listen();
        }
        self.failure.send_replace(None);
    }

    fn get(&self) -> Option<&dyn Engine> {
        self.engine.get().map(|engine| &**engine)
    }

    fn error(&self) -> EngineError {
        let failure = self.failure.borrow().clone();
        failure.unwrap_or_else(|| {
            EngineError::new(EngineErrorKind::NotConnected, "connecting to the server")
        })
    }

    /// Sends a request, if the engine is open.
    fn send<'a, T: Send + 'a>(
        &'a self,
        request: impl FnOnce(&'a dyn Engine) -> EngineFuture<'a, T>,
    ) -> EngineFuture<'a, T> {
        match self.get() {
            Some(engine) => request(engine),
            None => Box::pin(ready(Err(self.error()))),
        }
    }

    async fn until_open(&self, deadline: Instant) -> Result<(), EngineError> {
        let mut failure = self.failure.subscribe();
        let settled = failure.wait_for(|failure| {
            let passes = |error: &EngineError| error.kind == EngineErrorKind::NotConnected;
            !failure.as_ref().is_some_and(passes)
        });
        let settled = self.io.timeout_at(deadline, settled).await;
        match settled.as_ref().map(|settled| settled.as_deref()) {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(error))) => Err(error.clone()),
            _ => Err(self.error()),
        }
    }
}

fn is_shutdown(error: &EngineError) -> bool {
    matches!(
        error.source.downcast_ref(),
        Some(LockError::ShuttingDown { .. })
    )
}

/// An outage may pass; everything else fails a call at once.
fn failure(error: LockError) -> EngineError {
    match error {
        LockError::Unavailable { source, .. } => EngineError {
            kind: EngineErrorKind::NotConnected,
            source,
        },
        error => EngineError::new(EngineErrorKind::Rejected, error),
    }
}

impl Operations for LateEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        self.send(|engine| engine.ping(deadline))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        self.send(|engine| engine.view(name, most, deadline))
    }

    fn has_index(&self) -> bool {
        self.get().is_none_or(|engine| engine.has_index())
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        self.send(|engine| engine.names(prefix, most, deadline))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        self.send(|engine| engine.report(process, report, deadline))
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        self.send(|engine| engine.reports(of, deadline))
    }

    fn report_pace(&self) -> ReportPace {
        self.get()
            .map_or(ReportPace::REGULAR, |engine| engine.report_pace())
    }

    fn shown_as(&self, token: Token) -> Token {
        self.get().map_or(token, |engine| engine.shown_as(token))
    }

    fn listen(&self) {
        self.listens.store(true, Ordering::SeqCst);
        if let Some(engine) = self.get() {
            engine.listen();
        }
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        self.send(|engine| engine.ask(text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        self.send(|engine| engine.take(name, token, at_least, deadline))
    }
}

impl Engine for LateEngine {
    fn first_connection(&self, deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        match self.get() {
            Some(_) => None,
            None => Some(Box::pin(self.until_open(deadline))),
        }
    }

    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        self.send(|engine| engine.acquire(attempt, supervisor, deadline))
    }

    fn in_one_request(&self, name: &str, other: &str) -> bool {
        self.get()
            .is_some_and(|engine| engine.in_one_request(name, other))
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        self.send(|engine| engine.enqueue(claim, valid_until, deadline))
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.send(|engine| engine.cancel(claim, in_flight, deadline))
    }

    fn on_missed_grant(&self) {
        if let Some(engine) = self.get() {
            engine.on_missed_grant();
        }
    }

    fn is_alone(&self) -> bool {
        self.get().is_some_and(|engine| engine.is_alone())
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        self.send(|engine| engine.release(claim, deadline))
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        match self.get() {
            Some(engine) => engine.release_in_background(release),
            None => Err(release),
        }
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        self.send(|engine| engine.renew(claims, deadline))
    }

    fn shard_of(&self, name: &str) -> Shard {
        let first = Shard { server: 0, slot: 0 };
        self.get().map_or(first, |engine| engine.shard_of(name))
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.get()?.node_of(name)
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        self.send(|engine| engine.fencing_token(claim, deadline))
    }

    fn raise_fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        token: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.send(|engine| engine.raise_fencing_token(claim, token, deadline))
    }

    #[cfg(feature = "postgres")]
    fn prove<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Option<TransactionProof>> {
        self.send(|engine| engine.prove(claims, deadline))
    }

    #[cfg(feature = "postgres")]
    fn refuses_proof(&self) -> Option<&'static str> {
        self.get()?.refuses_proof()
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        self.send(|engine| engine.downgrade(claim, to, deadline))
    }

    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        match self.get() {
            Some(engine) => engine.lease(token, sent, duration),
            None => Lease::from_request(sent, duration),
        }
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        self.get()
            .map_or(Ok(()), |engine| engine.validate(key, options))
    }

    fn refuses_downgrade(&self) -> Option<&'static str> {
        self.get()?.refuses_downgrade()
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        match self.get() {
            Some(engine) => engine.inspect(ttl, replicas),
            None => {
                let mut found = Inspection::default();
                found.add_unreachable(&self.address, &self.error());
                Box::pin(ready(found))
            }
        }
    }

    fn drain(&self) -> EngineFuture<'_, ()> {
        match self.get() {
            Some(engine) => engine.drain(),
            None => {
                // Those that wait for the first connection wait no more.
                self.failed(LockError::ShuttingDown { key: None });
                Box::pin(ready(Ok(())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> LockError {
        LockError::Unavailable {
            key: None,
            server: "redis://h".into(),
            source: Arc::new(std::io::Error::other("refused")),
        }
    }

    /// A try to connect may end after the shutdown.
    #[tokio::test]
    async fn shutdown_ends_the_wait_for_a_connection_for_good() {
        let io = IoThread::start().unwrap();
        let engine = LateEngine::new(io, "redis://h".into(), unavailable());
        engine.drain().await.unwrap();
        engine.failed(unavailable());
        let deadline = Instant::now() + Duration::from_secs(20);
        let waited = engine.first_connection(deadline).unwrap();
        assert!(is_shutdown(&waited.await.unwrap_err()));
        assert!(Instant::now() < deadline);
    }
}
