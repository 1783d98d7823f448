//! The embedded engine, behind a connection that fails on demand.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::forward::Forward;
use crate::engine::memory::MemoryEngine;
use crate::engine::memory::store::Store;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::traits::Engine;
use crate::util::io_thread::IoThread;
use crate::util::time::deadline_in;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How the server of a [`Locks`](crate::testing::Locks) fails:
/// [`Locks::fail_with`](crate::testing::Locks::fail_with).
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

    async fn pass(&self, deadline: Instant) -> Result<&dyn Engine, EngineError> {
        let passed = self.connection.pass(self.io);
        let passed = self.io.timeout_at(deadline, passed).await;
        passed.unwrap_or_else(|_| Err(EngineError::no_reply()))?;
        Ok(&self.memory)
    }
}

answer_requests! {
    FaultyEngine: pass[acquire enqueue cancel release renew fencing_token downgrade]
}

answer_operations! { FaultyEngine: pass[ping views names report reports ask recall take] }

impl Forward for FaultyEngine {
    fn behind(&self) -> Option<&dyn Engine> {
        Some(&self.memory)
    }
}
