//! Locks of one machine: in the memory of a process, in which all workers are, and in a file.

use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::{Memory, Servers, Sqlite};
use lock_test_support::time::millis;

use super::{Deployment, KEYS, Limits, Links, PROCESSES};

pub struct Local {
    servers: Box<dyn Servers>,
    limits: Limits,
}

impl Local {
    pub fn memory() -> Self {
        Self {
            servers: Box::new(Memory::start()),
            limits: Limits {
                variant: "one process",
                processes: 1,
                managers: 3,
                // A kill is left out: it would also destroy all locks and the counter of fencing tokens.
                can: vec![
                    Kind::WorkerStopped,
                    Kind::RuntimeDropped,
                    Kind::ClockStepped,
                ],
                ..limits()
            },
        }
    }

    /// The machine has one clock, which no process has by itself.
    pub fn file() -> Self {
        Self {
            servers: Box::new(Sqlite::start()),
            limits: Limits {
                variant: "one file",
                processes: PROCESSES,
                managers: 1,
                can: Kind::PROCESS.to_vec(),
                ..limits()
            },
        }
    }
}

fn limits() -> Limits {
    Limits {
        variant: "",
        ttl: millis(800),
        keys: KEYS,
        processes: 1,
        managers: 1,
        replicas: 0,
        servers: 0,
        changes: false,
        links: Links::Nobodys,
        can: Vec::new(),
        clocks: false,
        away: 0,
        needed: 0,
        absence: Duration::ZERO,
        stop: Duration::ZERO,
        exclusive: true,
        account: false,
        overheard: false,
    }
}

impl Deployment for Local {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, _: usize) -> String {
        self.servers.urls().concat()
    }

    fn servers(&self) -> &dyn Servers {
        &*self.servers
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut *self.servers
    }

    fn proxy(&self, _: usize, _: usize) -> Option<&Proxy> {
        None
    }
}
