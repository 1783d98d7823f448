//! The in-memory engine: all workers in one process, and no server.

use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::{Memory, Servers};
use lock_test_support::time::millis;

use super::{Deployment, KEYS, Limits, Links};

pub struct InMemory {
    memory: Memory,
    limits: Limits,
}

impl InMemory {
    pub fn start() -> Self {
        Self {
            memory: Memory::start(),
            limits: Limits {
                variant: "one process",
                ttl: millis(800),
                keys: KEYS,
                processes: 1,
                managers: 3,
                replicas: 0,
                servers: 0,
                changes: false,
                links: Links::Nobodys,
                // A kill is left out: it would also destroy all locks and the counter of fencing tokens.
                can: vec![
                    Kind::WorkerStopped,
                    Kind::RuntimeDropped,
                    Kind::ClockStepped,
                ],
                clocks: false,
                away: 0,
                needed: 0,
                absence: Duration::ZERO,
                stop: Duration::ZERO,
                exclusive: true,
                account: false,
                overheard: false,
            },
        }
    }
}

impl Deployment for InMemory {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, _: usize) -> String {
        self.memory.urls().concat()
    }

    fn servers(&self) -> &dyn Servers {
        &self.memory
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.memory
    }

    fn proxy(&self, _: usize, _: usize) -> Option<&Proxy> {
        None
    }
}
