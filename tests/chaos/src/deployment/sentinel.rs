//! A master, two replicas and three Sentinels.

use crate::fault::Kind;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::sentinel::{Sentinels, Setup};
use lock_test_support::servers::Servers;

use super::failover::Failover;
use super::{Deployment, Limits, durable};

pub struct Sentinel {
    all: Sentinels,
    failover: Failover,
    limits: Limits,
    killed_master: Option<usize>,
}

impl Sentinel {
    pub fn start(rng: &mut Rng) -> Self {
        let failover = Failover::by(rng);
        let all = Sentinels::with(&Setup {
            down_after: failover.silence(),
            network: true,
            options: durable(),
            ..Setup::default()
        });
        // Until then no replica acknowledges a lock.
        assert!(all.until_replicated(2), "the replicas follow");
        let mut limits = failover.limits(Sentinels::SERVERS.len(), 2);
        if failover != Failover::Late {
            // A failover by command happens at once.
            limits.can.push(Kind::Failover);
        }
        Self {
            all,
            failover,
            limits,
            killed_master: None,
        }
    }
}

impl Deployment for Sentinel {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, _: usize) -> String {
        self.all.url()
    }

    fn servers(&self) -> &dyn Servers {
        &self.all
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.all
    }

    fn serving(&self, _: u32) -> Option<usize> {
        self.all.agreed()
    }

    fn proxy(&self, _: usize, server: usize) -> Option<&Proxy> {
        self.all.server(server).network()
    }

    fn may_begin(&self) -> bool {
        self.failover.may_begin(|| self.all.is_settled())
    }

    fn killed(&mut self, number: usize) {
        let another = self.all.agreed().is_some_and(|master| master != number);
        self.killed_master = (!another).then_some(number);
    }

    /// A master that returns empty while the Sentinels still call it the master has lost all locks.
    fn may_return(&self, number: usize) -> bool {
        match (self.failover, self.killed_master) {
            (Failover::Late, Some(master)) if master == number => {
                self.all.agreed().is_some_and(|now| now != number)
            }
            _ => true,
        }
    }

    /// The Sentinels reach the master over the same network that gets the faults.
    fn forgets_by(&self, kind: Kind, server: usize) -> bool {
        let is_master = || self.all.agreed().is_none_or(|master| master == server);
        let replaced = kind.silences() || kind == Kind::Failover;
        self.failover == Failover::Early && replaced && is_master()
    }

    /// If another failover were under way, the Sentinels would never agree again.
    fn fail_over(&mut self, _: u32) -> bool {
        self.all.is_settled() && self.all.begin_failover()
    }

    fn is_settled(&self) -> bool {
        self.all.is_settled()
    }
}
