//! Home connections: one for each runtime that takes locks, driven by that runtime itself.
//!
//! A request from a runtime with little to do then costs no hop to the I/O thread and back. With many
//! requests at once the I/O thread's connection is the faster one, since it works beside the runtime;
//! and it is there when a home has gone with its runtime.

use super::connection::{Connection, Dialer, Sending};
use super::site::Site;
use super::{EngineError, Fault};
use crate::engine::Token;
use redis::{Cmd, FromRedisValue};
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
    homes: Mutex<HashMap<Id, Place>>,
    /// Acquisitions whose answer nobody waits for any more, and the home they were sent from, if it
    /// wasn't the I/O thread.
    unsettled: Mutex<HashMap<Token, Option<Arc<Home>>>>,
}

enum Place {
    /// So often has the runtime asked.
    Visitor(u32),
    /// A connection is being made, or can't be had.
    None,
    Home(Arc<Home>),
}

pub(crate) struct Home {
    pub(crate) connection: Connection,
    /// How many are under way from the runtime, by whatever connection.
    acquisitions: AtomicUsize,
    left: Notify,
}

impl Homes {
    pub(crate) fn new(dialer: &Dialer) -> Arc<Homes> {
        Arc::new(Homes {
            dialer: Dialer {
                sending: Sending::Single,
                ..dialer.clone()
            },
            homes: Mutex::default(),
            unsettled: Mutex::default(),
        })
    }

    /// The home of the calling runtime, if it has one that serves.
    pub(crate) fn here(self: &Arc<Self>) -> Option<Arc<Home>> {
        self.own().filter(|home| home.serves())
    }

    /// The home of the calling runtime, if it has one.
    fn own(self: &Arc<Self>) -> Option<Arc<Home>> {
        // Each node of a cluster would be one home more.
        if matches!(self.dialer.site, Site::Cluster(_)) {
            return None;
        }
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

    /// Follows an acquisition that the calling runtime is about to send, from its home or by the I/O
    /// thread. Unless it is answered, its release must follow it there.
    pub(crate) fn follow(self: &Arc<Self>, token: Token) -> Flight<'_> {
        let own = self.own();
        let home = own.clone().filter(|home| home.serves());
        if let Some(own) = &own {
            own.acquisitions.fetch_add(1, Ordering::Relaxed);
        }
        Flight {
            homes: self,
            token,
            own,
            home,
            landed: false,
        }
    }

    /// Where an acquisition was sent from without having been answered.
    pub(crate) fn unsettled(&self, token: Token) -> Option<Option<Arc<Home>>> {
        self.lock_unsettled().remove(&token)
    }

    pub(crate) fn leave_unsettled(&self, token: Token, home: Option<Arc<Home>>) {
        self.lock_unsettled().insert(token, home);
    }

    fn homes(&self) -> MutexGuard<'_, HashMap<Id, Place>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_unsettled(&self) -> MutexGuard<'_, HashMap<Token, Option<Arc<Home>>>> {
        self.unsettled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
    fn serves(&self) -> bool {
        self.acquisitions.load(Ordering::Relaxed) < QUIET && !self.connection.place.is_left()
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
    let home = Arc::new(Home {
        connection,
        acquisitions: AtomicUsize::new(0),
        left: Notify::new(),
    });
    match homes.upgrade() {
        Some(homes) => homes.homes().insert(runtime, Place::Home(home.clone())),
        None => return,
    };
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

/// An acquisition under way.
pub(crate) struct Flight<'a> {
    homes: &'a Homes,
    token: Token,
    /// The home of the runtime that sends it.
    own: Option<Arc<Home>>,
    /// The home that it is sent from; none is the I/O thread.
    pub(crate) home: Option<Arc<Home>>,
    landed: bool,
}

impl Flight<'_> {
    pub(crate) fn landed<T>(mut self, answer: &Result<T, EngineError>) {
        self.landed = !matches!(answer, Err(error) if error.fault == Fault::Unanswered);
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            own.acquisitions.fetch_sub(1, Ordering::Relaxed);
        }
        if !self.landed {
            self.homes.leave_unsettled(self.token, self.home.take());
        }
    }
}
