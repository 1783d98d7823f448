//! Home connections: one for each runtime that takes locks, driven by that runtime itself.
//!
//! A request from a runtime with little to do then costs no hop to the I/O thread and back. With many
//! requests at once the I/O thread's connection is the faster one, since it works beside the runtime;
//! and it is there when a home has gone with its runtime.

use crate::engine::error::EngineError;
use crate::engine::redis::net::connection::{Connection, Dialer, Sending};
use crate::engine::redis::net::reconnect::Link;
use crate::engine::redis::net::socket;
use redis::{Cmd, FromRedisValue, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

/// A runtime that has asked so often is worth a connection.
const SETTLED: u32 = 16;

/// With so many acquisitions under way from a runtime, the I/O thread takes the next request: its
/// connection sends many at once, and the fuller its batches the less each costs.
const QUIET: usize = 6;

/// How many runtimes are remembered that have no home yet. Those of a process that makes one after the
/// other must not fill its memory.
const VISITORS: usize = 1000;

pub(crate) struct Homes {
    dialer: Dialer,
    /// The I/O thread's, to the same server.
    link: Weak<Link>,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// A runtime that has ended is removed by its home, if it has one.
    all: HashMap<Id, Place>,
    visitors: usize,
}

enum Place {
    /// So often has the runtime asked.
    Visitor(u32),
    /// A connection is being made.
    None,
    Home(Arc<Home>),
}

pub(crate) struct Home {
    connection: Connection,
    link: Weak<Link>,
    /// How many are under way from the runtime, by whatever connection.
    acquisitions: AtomicUsize,
}

impl Places {
    /// The runtime's home, or how often it has asked so far.
    fn visit(&mut self, runtime: Id) -> Result<Arc<Home>, u32> {
        match self.all.get_mut(&runtime) {
            Some(Place::Home(home)) => return Ok(home.clone()),
            Some(Place::None) => return Err(0),
            Some(Place::Visitor(times)) => {
                *times = times.saturating_add(1);
                return Err(*times);
            }
            None => {}
        }
        if self.visitors == VISITORS {
            // Those that are still there begin anew.
            self.all
                .retain(|_, place| !matches!(place, Place::Visitor(_)));
            self.visitors = 0;
        }
        self.visitors += 1;
        self.all.insert(runtime, Place::Visitor(1));
        Err(1)
    }

    fn enter(&mut self, runtime: Id, place: Place) {
        if let Some(Place::Visitor(_)) = self.all.insert(runtime, place) {
            self.visitors -= 1;
        }
    }
}

impl Homes {
    /// Those at the server that `link` leads to.
    pub(crate) fn new(dialer: &Dialer, link: &Arc<Link>) -> Arc<Homes> {
        Arc::new(Homes {
            link: Arc::downgrade(link),
            dialer: dialer.clone(),
            places: Mutex::default(),
        })
    }

    /// The home of the calling runtime, if it has one.
    pub(crate) fn own(self: &Arc<Self>) -> Option<Arc<Home>> {
        let runtime = Handle::try_current().ok()?;
        let mut places = self.places();
        let times = match places.visit(runtime.id()) {
            Ok(home) => return Some(home),
            Err(times) => times,
        };
        let io = self.dialer.io;
        if times >= SETTLED && !io.is_here(&runtime) && socket::may_be_driven() {
            places.enter(runtime.id(), Place::None);
            drop(places);
            let dialer = Dialer {
                sending: Sending::Driven(runtime.clone()),
                ..self.dialer.clone()
            };
            io.run(settle(Arc::downgrade(self), runtime.id(), dialer));
        }
        None
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        for place in self.places().all.values() {
            if let Place::Home(home) = place {
                home.leave();
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
                self.leave();
            }
            failure.error
        })
    }

    /// It is of no more use.
    fn leave(&self) {
        if let Some(driver) = self.connection.driver() {
            driver.end();
        }
    }
}

/// Makes a home for a runtime, and stays until it is left or the runtime ends.
async fn settle(homes: Weak<Homes>, runtime: Id, mut dialer: Dialer) {
    // Dropped with this task, on whatever path.
    let _leaving = Leaving {
        homes: homes.clone(),
        runtime,
    };
    let dialled = dialer.dial(|_| {}).await;
    // A runtime that ends must be gone.
    drop(dialer);
    let Ok(connection) = dialled else {
        return;
    };
    let Some(driver) = connection.driver().cloned() else {
        return;
    };
    let place = connection.place.clone();
    {
        let Some(homes) = homes.upgrade() else {
            return;
        };
        let home = Arc::new(Home {
            connection,
            link: homes.link.clone(),
            acquisitions: AtomicUsize::new(0),
        });
        homes.places().enter(runtime, Place::Home(home));
    }
    place.while_there(driver.ended()).await;
    driver.end();
}

struct Leaving {
    homes: Weak<Homes>,
    runtime: Id,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(homes) = self.homes.upgrade() {
            let left = homes.places().all.remove(&self.runtime);
            // Dropped only now: the place is free for another.
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
        let mut places = Places::default();
        let mut greatest = 0;
        for _ in 0..10_000 {
            let runtime = Builder::new_current_thread().build().unwrap();
            let id = runtime.handle().id();
            assert!(places.visit(id).is_err_and(|times| times == 1));
            assert!(places.visit(id).is_err_and(|times| times == 2));
            greatest = greatest.max(places.all.len());
        }
        assert_eq!(greatest, VISITORS);
    }

    #[test]
    fn a_runtime_that_is_there_when_visitors_are_forgotten_settles_all_the_same() {
        let mut places = Places::default();
        let runtimes: Vec<_> = (0..VISITORS)
            .map(|_| Builder::new_current_thread().build().unwrap())
            .collect();
        let id = |n: usize| runtimes[n].handle().id();
        places.enter(id(0), Place::None);
        for n in 0..VISITORS {
            let _ = places.visit(id(n));
        }
        assert_eq!(places.visitors, VISITORS - 1);
        places.enter(id(1), Place::None);
        assert_eq!(places.visitors, VISITORS - 2);
        assert_eq!(places.visit(id(2)).err(), Some(2));
    }
}
