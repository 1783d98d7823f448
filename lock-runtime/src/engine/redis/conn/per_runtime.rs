//! Runtime connections: one for each runtime that acquires locks, driven by that runtime itself.
//!
//! An acquisition or a release then crosses no thread. The I/O thread's connection remains when a runtime
//! connection has ended with its runtime.

use crate::engine::common::upkeep::{Connect, Kept};
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::connection::Connection;
use crate::engine::redis::conn::socket;
use crate::util::sync::{Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::runtime::{Handle, Id};

/// The number of requests after which a runtime gets a connection.
const MIN_REQUESTS: u32 = 16;

/// The number of runtimes without a connection that are remembered. A process that creates one runtime after
/// the other must not fill its memory.
const MAX_COUNTING: usize = 1000;

/// The number of connections that a thread remembers: enough for the members of a quorum.
const MAX_USED: usize = 16;

thread_local! {
    /// The connections that this thread has used, to be found without a mutex.
    static USED: RefCell<Vec<Used>> = const { RefCell::new(Vec::new()) };
}

struct Used {
    connections: Weak<RuntimeConnections>,
    runtime: Id,
    connection: Weak<Connection>,
}

impl Used {
    /// Returns the connection, unless it has ended: a future that is set aside still owns one that has.
    fn present(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.upgrade()?;
        (!connection.has_ended()).then_some(connection)
    }
}

pub(crate) struct RuntimeConnections {
    connector: Connector,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// A runtime that has ended is removed by the task of its connection, if it has one.
    all: HashMap<Id, Entry>,
    counting: usize,
}

enum Entry {
    /// The number of requests of the runtime so far.
    Counting(u32),
    /// A connection is being made.
    Connecting,
    Ready(Arc<Connection>),
}

impl Entries {
    /// Returns the runtime's connection, or the number of its requests so far.
    fn visit(&mut self, runtime: Id) -> Result<Arc<Connection>, u32> {
        match self.all.get_mut(&runtime) {
            Some(Entry::Ready(connection)) => return Ok(connection.clone()),
            Some(Entry::Connecting) => return Err(0),
            Some(Entry::Counting(times)) => {
                *times = times.saturating_add(1);
                return Err(*times);
            }
            None => {}
        }
        if self.counting == MAX_COUNTING {
            // Runtimes that still exist start counting anew.
            self.all
                .retain(|_, entry| !matches!(entry, Entry::Counting(_)));
            self.counting = 0;
        }
        self.counting += 1;
        self.all.insert(runtime, Entry::Counting(1));
        Err(1)
    }

    fn set(&mut self, runtime: Id, entry: Entry) {
        if let Some(Entry::Counting(_)) = self.all.insert(runtime, entry) {
            self.counting -= 1;
        }
    }
}

impl RuntimeConnections {
    /// Creates the runtime connections to the server that `connector` connects to.
    pub(crate) fn new(connector: &Connector) -> Arc<RuntimeConnections> {
        Arc::new(RuntimeConnections {
            connector: connector.clone(),
            entries: Mutex::default(),
        })
    }

    /// Returns the connection of the calling runtime, if it has one.
    pub(crate) fn current(self: &Arc<Self>) -> Option<Arc<Connection>> {
        let runtime = Handle::try_current().ok()?;
        if let Some(connection) = self.used(runtime.id()) {
            return Some(connection);
        }
        let mut entries = self.entries();
        let times = match entries.visit(runtime.id()) {
            Ok(connection) => {
                self.remember(runtime.id(), &connection);
                return Some(connection);
            }
            Err(times) => times,
        };
        let io = self.connector.io;
        if times >= MIN_REQUESTS && !io.is_current(&runtime) && socket::may_be_driven() {
            entries.set(runtime.id(), Entry::Connecting);
            drop(entries);
            let connector = Connector {
                runtime: Some(runtime.clone()),
                ..self.connector.clone()
            };
            io.spawn_detached(run(Arc::downgrade(self), runtime.id(), connector));
        }
        None
    }

    /// Returns the connection of the runtime if this thread has used it before.
    fn used(self: &Arc<Self>, runtime: Id) -> Option<Arc<Connection>> {
        let is_it = |it: &&Used| {
            it.runtime == runtime && std::ptr::eq(it.connections.as_ptr(), Arc::as_ptr(self))
        };
        let find = |used: &RefCell<Vec<Used>>| {
            let used = used.borrow();
            used.iter().find(is_it)?.present()
        };
        // A thread that ends remembers nothing.
        USED.try_with(find).ok().flatten()
    }

    fn remember(self: &Arc<Self>, runtime: Id, connection: &Arc<Connection>) {
        let _ = USED.try_with(|used| {
            let mut used = used.borrow_mut();
            used.retain(|it| it.present().is_some());
            if used.len() == MAX_USED {
                used.clear();
            }
            used.push(Used {
                connections: Arc::downgrade(self),
                runtime,
                connection: Arc::downgrade(connection),
            });
        });
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

impl Drop for RuntimeConnections {
    fn drop(&mut self) {
        for entry in self.entries().all.values() {
            if let Entry::Ready(connection) = entry {
                connection.end();
            }
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
    let connected = connector.connect(connector.timeouts.connect).await;
    // The connector holds a handle of the runtime, which must be able to end.
    drop(connector);
    let Ok(connection) = connected else {
        return;
    };
    {
        let Some(connections) = connections.upgrade() else {
            return;
        };
        connections
            .entries()
            .set(runtime, Entry::Ready(connection.clone()));
    }
    connection.ended().await;
    connection.end();
}

struct RemoveOnDrop {
    connections: Weak<RuntimeConnections>,
    runtime: Id,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        if let Some(connections) = self.connections.upgrade() {
            let left = connections.entries().all.remove(&self.runtime);
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
        let mut entries = Entries::default();
        let mut greatest = 0;
        for _ in 0..10_000 {
            let runtime = Builder::new_current_thread().build().unwrap();
            let id = runtime.handle().id();
            assert!(entries.visit(id).is_err_and(|times| times == 1));
            assert!(entries.visit(id).is_err_and(|times| times == 2));
            greatest = greatest.max(entries.all.len());
        }
        assert_eq!(greatest, MAX_COUNTING);
    }

    #[test]
    fn connecting_runtimes_are_not_counted() {
        let mut entries = Entries::default();
        let runtimes: Vec<_> = (0..MAX_COUNTING)
            .map(|_| Builder::new_current_thread().build().unwrap())
            .collect();
        let id = |n: usize| runtimes[n].handle().id();
        entries.set(id(0), Entry::Connecting);
        for n in 0..MAX_COUNTING {
            let _ = entries.visit(id(n));
        }
        assert_eq!(entries.counting, MAX_COUNTING - 1);
        entries.set(id(1), Entry::Connecting);
        assert_eq!(entries.counting, MAX_COUNTING - 2);
        assert_eq!(entries.visit(id(2)).err(), Some(2));
    }
}
