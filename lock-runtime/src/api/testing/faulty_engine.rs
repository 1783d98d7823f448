//! The embedded engine, behind a connection that fails on demand.

use crate::engine::background_release::ReleaseSupervisor;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::memory::MemoryEngine;
use crate::engine::memory::store::Store;
use crate::engine::operations::{Operations, StoredReport, Taken};
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::engine::view::View;
use crate::process::ProcessId;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How the server of a [`Locks`](crate::testing::Locks) fails: [`Locks::fail_with`](crate::testing::Locks::fail_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The server refuses connections: every request fails at once.
    Down,
    /// The server does not answer: every request fails when its command timeout has passed.
    Silent,
    /// The server answers each request after this time.
    Slow(Duration),
}

/// The connection of one process to the server, with its present fault.
pub(crate) struct Connection(watch::Sender<Option<Fault>>);

impl Connection {
    pub(crate) fn new() -> Arc<Connection> {
        Arc::new(Connection(watch::Sender::new(None)))
    }

    pub(crate) fn set(&self, fault: Option<Fault>) {
        self.0.send_replace(fault);
    }

    /// Drops the events of a server that cannot be reached.
    fn guard(self: &Arc<Self>, handler: EventHandler) -> EventHandler {
        let connection = self.clone();
        Arc::new(move |event: EngineEvent| {
            let fault = *connection.0.borrow();
            if !matches!(fault, Some(Fault::Down | Fault::Silent)) {
                handler(event);
            }
        })
    }

    /// Waits until a request reaches the server.
    async fn pass(&self, io: IoThread) -> Result<(), EngineError> {
        let mut faults = self.0.subscribe();
        loop {
            let fault = *faults.borrow_and_update();
            match fault {
                None => return Ok(()),
                Some(Fault::Down) => {
                    let words = "connection refused, as this test demands";
                    return Err(EngineError::new(EngineErrorKind::NotConnected, words));
                }
                Some(Fault::Silent) => _ = faults.changed().await,
                Some(Fault::Slow(time)) => {
                    io.sleep_until(deadline_in(time)).await;
                    return Ok(());
                }
            }
        }
    }
}

/// The engine of a process whose connection may fail.
pub(crate) struct FaultyEngine {
    memory: MemoryEngine,
    connection: Arc<Connection>,
    io: IoThread,
}

impl FaultyEngine {
    pub(crate) fn new(
        store: Arc<Store>,
        connection: Arc<Connection>,
        io: IoThread,
        handler: EventHandler,
    ) -> FaultyEngine {
        FaultyEngine {
            memory: MemoryEngine::new(store, connection.guard(handler)),
            connection,
            io,
        }
    }

    /// Sends a request, which is carried out unless the connection fails.
    fn send<'a, T>(
        &'a self,
        deadline: Instant,
        request: impl FnOnce(&'a MemoryEngine) -> EngineFuture<'a, T> + Send + 'a,
    ) -> EngineFuture<'a, T> {
        Box::pin(async move {
            let passed = self
                .io
                .timeout_at(deadline, self.connection.pass(self.io))
                .await;
            passed.unwrap_or_else(|_| Err(EngineError::no_reply()))?;
            request(&self.memory).await
        })
    }
}

impl Operations for FaultyEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        self.send(deadline, move |memory| memory.ping(deadline))
    }

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        self.send(deadline, move |memory| memory.view(name, most, deadline))
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        self.send(deadline, move |memory| memory.names(prefix, most, deadline))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        self.send(deadline, move |memory| {
            memory.report(process, report, deadline)
        })
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        self.send(deadline, move |memory| memory.reports(of, deadline))
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        self.send(deadline, move |memory| memory.ask(text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        self.send(deadline, move |memory| {
            memory.take(name, token, at_least, deadline)
        })
    }
}

impl Engine for FaultyEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        self.send(deadline, move |memory| {
            Engine::acquire(memory, attempt, supervisor, deadline)
        })
    }

    fn in_one_request(&self, name: &str, other: &str) -> bool {
        self.memory.in_one_request(name, other)
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        self.send(deadline, move |memory| {
            Engine::enqueue(memory, claim, valid_until, deadline)
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.send(deadline, move |memory| {
            Engine::cancel(memory, claim, in_flight, deadline)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        self.send(deadline, move |memory| {
            Engine::release(memory, claim, deadline)
        })
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        self.send(deadline, move |memory| {
            Engine::renew(memory, claims, deadline)
        })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        self.send(deadline, move |memory| {
            Engine::fencing_token(memory, claim, deadline)
        })
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        self.send(deadline, move |memory| {
            Engine::downgrade(memory, claim, to, deadline)
        })
    }
}
