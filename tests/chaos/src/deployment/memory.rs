//! The in-memory engine: all workers in one process, and no server.

use std::time::Duration;

use crate::fault::Kind;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::millis;

use super::{Deployment, Host, KEYS, Limits, Links};

pub struct Memory {
    url: String,
    limits: Limits,
}

impl Memory {
    pub fn start(seed: u64) -> Self {
        Self {
            url: format!("memory://chaos-{seed}"),
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

impl Deployment for Memory {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, _: usize) -> String {
        self.url.clone()
    }

    fn server(&mut self, number: usize) -> &mut dyn Host {
        unreachable!("there is no server {number}")
    }

    fn proxy(&self, _: usize, _: usize) -> Option<&Proxy> {
        None
    }

    fn leftovers(&self) -> Vec<String> {
        Vec::new()
    }
}
