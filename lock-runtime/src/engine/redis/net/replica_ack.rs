//! Requests whose effect must be known to replicas before it counts.
//!
//! `WAIT` counts what was written on its own connection, and blocks that one: so there is one more
//! connection for each number of replicas that anybody asks for.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::net::connection::{Dialer, Sending};
use crate::engine::redis::net::reconnect::Link;
use crate::engine::timeouts::Timeouts;
use redis::Cmd;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) struct Acknowledged {
    dialer: Dialer,
    links: Mutex<BTreeMap<u32, Arc<Link>>>,
}

impl Acknowledged {
    /// Those to the server that is otherwise spoken to as `dialer` says.
    pub(crate) fn new(dialer: &Dialer) -> Acknowledged {
        Acknowledged {
            dialer: dialer.clone(),
            links: Mutex::default(),
        }
    }

    /// The connection on which so many replicas are waited for; none if there are none to wait for.
    pub(crate) fn by(&self, replicas: u32) -> Option<Arc<Link>> {
        if replicas == 0 {
            return None;
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let wait = wait(replicas, self.dialer.timeouts);
            let dialer = Dialer {
                sending: Sending::Closing(wait),
                ..self.dialer.clone()
            };
            let (link, _) = Link::open(dialer.io, dialer);
            Arc::new(link)
        };
        Some(links.entry(replicas).or_insert_with(open).clone())
    }
}

fn wait(replicas: u32, timeouts: Timeouts) -> Cmd {
    let mut wait = redis::cmd("WAIT");
    let patience = patience(timeouts).as_millis().max(1) as u64;
    wait.arg(replicas).arg(patience);
    wait
}

/// How long replicas are waited for. A request that comes while others wait has to wait twice, and is
/// to be answered in time.
fn patience(timeouts: Timeouts) -> Duration {
    timeouts.command * 2 / 5
}

/// That so many replicas know of it are enough for a claim that asks for `wanted`.
pub(crate) fn enough(known: u32, wanted: u32) -> Result<(), EngineError> {
    if known >= wanted {
        return Ok(());
    }
    let words = format!(
        "{known} of the {wanted} replicas asked for acknowledged it in time; check that they run and \
         keep up with the master"
    );
    Err(EngineError::new(Fault::Unacknowledged, words))
}
