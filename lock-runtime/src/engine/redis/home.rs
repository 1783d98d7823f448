//! Home connections: one for each runtime that takes locks, driven by that runtime itself.
//!
//! A request from a runtime with little to do then costs no hop to the I/O thread and back. With many
//! requests at once the I/O thread's connection is the faster one, since it works beside the runtime;
//! and it is there when a home has gone with its runtime.

use super::EngineError;
use super::connection::{Connection, Dialer, Sending};
use super::link::Link;
use redis::{Cmd, FromRedisValue, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A runtime that has asked so often is worth a connection.
const SETTLED: u32 = 16;

/// With so many acquisitions under way from a runtime, the I/O thread takes the next request: its
/// connection sends many at once, and the fuller its batches the less each costs.
const QUIET: usize = 6;

pub(crate) struct Homes {
    dialer: Dialer,
    /// The I/O thread's, to the same server.
    link: Weak<Link>,
    homes: Mutex<HashMap<Id, Place>>,
}

enum Place {
    /// So often has the runtime asked.
    Visitor(u32),
    /// A connection is being made, or can't be had.
    None,
    Home(Arc<Home>),
}

pub(crate) struct Home {
    connection: Connection,
    link: Weak<Link>,
    /// How many are under way from the runtime, by whatever connection.
    acquisitions: AtomicUsize,
    left: Notify,
}

impl Homes {
    /// Those at the server that `link` leads to.
    pub(crate) fn new(dialer: &Dialer, link: &Arc<Link>) -> Arc<Homes> {
        Arc::new(Homes {
            link: Arc::downgrade(link),
            dialer: Dialer {
                sending: Sending::Single,
                ..dialer.clone()
            },
            homes: Mutex::default(),
        })
    }

    /// The home of the calling runtime, if it has one.
    pub(crate) fn own(self: &Arc<Self>) -> Option<Arc<Home>> {
        let runtime = Handle::try_current().ok()?;
        let mut homes = self.homes();
        match homes.entry(runtime.id()).or_insert(Place::Visitor(0)) {
            Place::Home(home) => Some(home.clone()),
            Place::None => None,
            Place::Visitor(times) => {
                *times = times.saturating_add(1);
                if *times >= SETTLED && !self.dialer.io.is_here(&runtime) {
                    homes.insert(runtime.id(), Place::None);
                    drop(homes);
                    runtime.spawn(settle(
                        Arc::downgrade(self),
                        runtime.id(),
                        self.dialer.clone(),
                    ));
                }
                None
            }
        }
    }

    fn homes(&self) -> MutexGuard<'_, HashMap<Id, Place>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        for place in self.homes().values() {
            if let Place::Home(home) = place {
                home.left.notify_one();
            }
        }
    }
}

impl Home {
    /// Whether a request is served best from here.
    pub(crate) fn serves(&self) -> bool {
        self.acquisitions.load(Ordering::Relaxed) < QUIET && !self.connection.place.is_left()
    }

    /// An acquisition is about to be sent by this runtime, …
    pub(crate) fn sends(&self) {
        self.acquisitions.fetch_add(1, Ordering::Relaxed);
    }

    /// … and is under way no more.
    pub(crate) fn has_sent(&self) {
        self.acquisitions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether that one leads to the same server.
    pub(crate) fn is_beside(&self, link: &Arc<Link>) -> bool {
        std::ptr::eq(self.link.as_ptr(), Arc::as_ptr(link))
    }

    /// Has the server carry out nothing more of what was sent from here.
    pub(crate) async fn silence(&self, until: Instant) -> Result<(), EngineError> {
        let (Some(peer), Some(link)) = (&self.connection.peer, self.link.upgrade()) else {
            return Ok(());
        };
        match link.ask::<Value>(peer.kill(), until).await {
            Err(error) if error.is_transient() => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        command: Cmd,
        until: Instant,
    ) -> Result<T, EngineError> {
        let answer = self.connection.ask(command, until).await;
        answer.map_err(|failure| {
            if failure.broken {
                self.left.notify_one();
            }
            failure.error
        })
    }
}

/// Makes a home on the present runtime, and stays until it is left or the runtime ends.
async fn settle(homes: Weak<Homes>, runtime: Id, mut dialer: Dialer) {
    // Dropped with this task, on whatever path.
    let _leaving = Leaving {
        homes: homes.clone(),
        runtime,
    };
    let Ok(connection) = dialer.dial(|_| {}).await else {
        return;
    };
    let Some(homes) = homes.upgrade() else {
        return;
    };
    let home = Arc::new(Home {
        connection,
        link: homes.link.clone(),
        acquisitions: AtomicUsize::new(0),
        left: Notify::new(),
    });
    homes.homes().insert(runtime, Place::Home(home.clone()));
    drop(homes);
    let place = &home.connection.place;
    place.while_there(home.left.notified()).await;
}

struct Leaving {
    homes: Weak<Homes>,
    runtime: Id,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // A runtime without I/O panics at the try to connect; it is not tried again.
        if let Some(homes) = self.homes.upgrade()
            && !std::thread::panicking()
        {
            homes.homes().remove(&self.runtime);
        }
    }
}
