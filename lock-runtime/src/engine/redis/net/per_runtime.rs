//! Runtime connections: one for each runtime that acquires locks, driven by that runtime itself.
//!
//! A request from a runtime with little to do then costs no hop to the I/O thread and back. With many
//! concurrent requests the I/O thread's connection is faster, since it works beside the runtime; and it
//! remains when a runtime connection has ended with its runtime.

use crate::engine::error::EngineError;
use crate::engine::redis::net::connection::Connection;
use crate::engine::redis::net::connector::{Connector, SendMode};
use crate::engine::redis::net::reconnect::ReconnectingConnection;
use crate::engine::redis::net::socket;
use redis::{Cmd, FromRedisValue, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

/// The number of requests after which a runtime gets a connection.
const MIN_REQUESTS: u32 = 16;

/// The number of acquisitions under way from a runtime at which the I/O thread takes the next request: its
/// connection sends many at once, and the fuller its batches the less each costs.
const MAX_IN_FLIGHT: usize = 6;

/// The number of runtimes without a connection that are remembered. A process that creates one runtime after
/// the other must not fill its memory.
const MAX_COUNTING: usize = 1000;

pub(crate) struct RuntimeConnections {
    connector: Connector,
    /// The I/O thread's connection to the same server.
    main: Weak<ReconnectingConnection>,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// A runtime that has ended is removed by the task of its connection, if it has one.
    all: HashMap<Id, Slot>,
    counting: usize,
}

enum Slot {
    /// The number of requests of the runtime so far.
    Counting(u32),
    /// A connection is being made.
    Connecting,
    Ready(Arc<RuntimeConnection>),
}

pub(crate) struct RuntimeConnection {
    connection: Connection,
    main: Weak<ReconnectingConnection>,
    /// The number of acquisitions under way from the runtime, over any connection.
    in_flight: AtomicUsize,
}

impl Slots {
    /// Returns the runtime's connection, or the number of its requests so far.
    fn visit(&mut self, runtime: Id) -> Result<Arc<RuntimeConnection>, u32> {
        match self.all.get_mut(&runtime) {
            Some(Slot::Ready(connection)) => return Ok(connection.clone()),
            Some(Slot::Connecting) => return Err(0),
            Some(Slot::Counting(times)) => {
                *times = times.saturating_add(1);
                return Err(*times);
            }
            None => {}
        }
        if self.counting == MAX_COUNTING {
            // Runtimes that still exist start counting anew.
            self.all
                .retain(|_, slot| !matches!(slot, Slot::Counting(_)));
            self.counting = 0;
        }
        self.counting += 1;
        self.all.insert(runtime, Slot::Counting(1));
        Err(1)
    }

    fn set(&mut self, runtime: Id, slot: Slot) {
        if let Some(Slot::Counting(_)) = self.all.insert(runtime, slot) {
            self.counting -= 1;
        }
    }
}

impl RuntimeConnections {
    /// Creates the runtime connections to the server that `main` leads to.
    pub(crate) fn new(
        connector: &Connector,
        main: &Arc<ReconnectingConnection>,
    ) -> Arc<RuntimeConnections> {
        Arc::new(RuntimeConnections {
            main: Arc::downgrade(main),
            connector: connector.clone(),
            slots: Mutex::default(),
        })
    }

    /// Returns the connection of the calling runtime, if it has one.
    pub(crate) fn current(self: &Arc<Self>) -> Option<Arc<RuntimeConnection>> {
        let runtime = Handle::try_current().ok()?;
        let mut slots = self.slots();
        let times = match slots.visit(runtime.id()) {
            Ok(connection) => return Some(connection),
            Err(times) => times,
        };
        let io = self.connector.io;
        if times >= MIN_REQUESTS && !io.is_current(&runtime) && socket::may_be_driven() {
            slots.set(runtime.id(), Slot::Connecting);
            drop(slots);
            let connector = Connector {
                send_mode: SendMode::Driven(runtime.clone()),
                ..self.connector.clone()
            };
            io.spawn_detached(run(Arc::downgrade(self), runtime.id(), connector));
        }
        None
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RuntimeConnections {
    fn drop(&mut self) {
        for slot in self.slots().all.values() {
            if let Slot::Ready(connection) = slot {
                connection.close();
            }
        }
    }
}

impl RuntimeConnection {
    /// Returns `true` if this connection serves a request best.
    pub(crate) fn has_capacity(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) < MAX_IN_FLIGHT
            && !self.connection.endpoint.is_stale()
    }

    /// Counts an acquisition that this runtime is about to send.
    pub(crate) fn acquire_started(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the count of an acquisition.
    pub(crate) fn acquire_finished(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns `true` if `main` leads to the same server.
    pub(crate) fn belongs_to(&self, main: &Arc<ReconnectingConnection>) -> bool {
        std::ptr::eq(self.main.as_ptr(), Arc::as_ptr(main))
    }

    /// Kills this connection on the server, so that no request already sent on it can still be carried out.
    pub(crate) async fn kill(&self, deadline: Instant) -> Result<(), EngineError> {
        let (Some(peer), Some(main)) = (&self.connection.client_id, self.main.upgrade()) else {
            return Ok(());
        };
        match main.send::<Value>(peer.kill(), deadline).await {
            Err(error) if error.is_retryable() => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        command: Cmd,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let answer = self.connection.send(command, deadline).await;
        answer.map_err(|failure| {
            if failure.broken {
                self.close();
            }
            failure.error
        })
    }

    /// Ends the connection, which is no longer usable.
    fn close(&self) {
        if let Some(driver) = self.connection.driver() {
            driver.end();
        }
    }
}

/// Makes a runtime's connection, and runs until the connection or the runtime ends.
async fn run(connections: Weak<RuntimeConnections>, runtime: Id, mut connector: Connector) {
    // Runs on every path out of this task.
    let _leaving = RemoveOnDrop {
        connections: connections.clone(),
        runtime,
    };
    let connected = connector.connect(|_| {}).await;
    // The connector holds a handle of the runtime, which must be able to end.
    drop(connector);
    let Ok(connection) = connected else {
        return;
    };
    let Some(driver) = connection.driver().cloned() else {
        return;
    };
    let endpoint = connection.endpoint.clone();
    {
        let Some(connections) = connections.upgrade() else {
            return;
        };
        let connection = Arc::new(RuntimeConnection {
            connection,
            main: connections.main.clone(),
            in_flight: AtomicUsize::new(0),
        });
        connections.slots().set(runtime, Slot::Ready(connection));
    }
    endpoint.until_stale(driver.ended()).await;
    driver.end();
}

struct RemoveOnDrop {
    connections: Weak<RuntimeConnections>,
    runtime: Id,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Some(connections) = self.connections.upgrade() {
            let left = connections.slots().all.remove(&self.runtime);
            // Drop outside the mutex.
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    #[test]
    fn ten_thousand_runtimes_leave_little_behind() {
        let mut slots = Slots::default();
        let mut greatest = 0;
        for _ in 0..10_000 {
            let runtime = Builder::new_current_thread().build().unwrap();
            let id = runtime.handle().id();
            assert!(slots.visit(id).is_err_and(|times| times == 1));
            assert!(slots.visit(id).is_err_and(|times| times == 2));
            greatest = greatest.max(slots.all.len());
        }
        assert_eq!(greatest, MAX_COUNTING);
    }

    #[test]
    fn connecting_runtimes_are_not_counted() {
        let mut slots = Slots::default();
        let runtimes: Vec<_> = (0..MAX_COUNTING)
            .map(|_| Builder::new_current_thread().build().unwrap())
            .collect();
        let id = |n: usize| runtimes[n].handle().id();
        slots.set(id(0), Slot::Connecting);
        for n in 0..MAX_COUNTING {
            let _ = slots.visit(id(n));
        }
        assert_eq!(slots.counting, MAX_COUNTING - 1);
        slots.set(id(1), Slot::Connecting);
        assert_eq!(slots.counting, MAX_COUNTING - 2);
        assert_eq!(slots.visit(id(2)).err(), Some(2));
    }
}
