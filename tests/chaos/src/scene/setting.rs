//! The parameters of a scene.

use std::time::Duration;

use crate::deployment::{
    Beside, Deployment, InEtcd, InMariaDb, InPostgres, InZooKeeper, Limits, OneNode, Quorum,
    Standalone, Topology, ensemble,
};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::{Plan, Profile, Step, Target};
use crate::schedule::{RunResult, Schedule};
use lock_test_support::clocks::{ALL, Clocks};
use lock_test_support::etcd::Etcd;
use lock_test_support::time::millis;

pub struct Setting {
    pub topology: Topology,
    pub ttl: Duration,
    pub keys: u32,
    pub processes: usize,
    /// The longest outage of a server or a network.
    pub stop: Duration,
    pub workload: Workload,
    pub lasts: Duration,
    pub profile: Profile,
    pub plan: Option<Plan>,
    pub gap: Option<Duration>,
    pub mean_gap: Option<Duration>,
    pub order: bool,
    pub fenced: Option<bool>,
    /// How much the clocks of the first process are slow, in millionths.
    pub slow: i64,
    /// `account`: the workers have an ACL user of their own; `overheard`: another client receives all
    /// messages.
    pub account: bool,
    pub overheard: bool,
    /// What the database is deployed with.
    pub beside: Beside,
    /// The number of members of etcd.
    pub members: usize,
    /// How many ticks of 100 ms an ensemble of three servers waits for one that is silent.
    pub sync_limit: Option<u32>,
}

impl Setting {
    pub fn of(kinds: &[Kind]) -> Self {
        Self {
            topology: Topology::Standalone,
            ttl: millis(800),
            keys: 3,
            processes: 3,
            stop: millis(2000),
            workload: plain(),
            lasts: millis(5000),
            profile: Profile::only(kinds),
            plan: None,
            gap: None,
            mean_gap: None,
            order: false,
            fenced: None,
            slow: 0,
            account: false,
            overheard: false,
            beside: Beside::Nothing,
            members: 1,
            sync_limit: None,
        }
    }

    pub fn scripted(steps: Vec<Step>) -> Self {
        Self {
            plan: Some(Plan { steps }),
            ..Self::of(&[])
        }
    }

    fn deployment(&self) -> Box<dyn Deployment> {
        let usual = match self.topology {
            Topology::Postgres => InPostgres::limits(),
            Topology::Etcd => InEtcd::limits(self.members),
            Topology::ZooKeeper => InZooKeeper::limits(self.sync_limit.map_or(1, |_| 3)),
            Topology::MariaDb => InMariaDb::limits(),
            Topology::Quorum => Quorum::limits(3),
            _ => Standalone::that_remembers(self.ttl),
        };
        let limits = Limits {
            ttl: self.ttl.max(usual.ttl),
            keys: self.keys,
            processes: self.processes,
            stop: self.stop,
            account: self.account,
            overheard: self.overheard,
            ..usual
        };
        match self.topology {
            Topology::Postgres => Box::new(InPostgres::with(self.beside, limits)),
            Topology::Etcd => {
                let etcd = match self.members {
                    1 => Etcd::start(),
                    _ => Etcd::three_behind_proxies(),
                };
                Box::new(InEtcd::with(etcd, limits))
            }
            Topology::ZooKeeper => {
                let ensemble = ensemble(limits.servers, self.sync_limit.unwrap_or(4));
                Box::new(InZooKeeper::with(ensemble, limits))
            }
            Topology::MariaDb => Box::new(InMariaDb::with(limits)),
            Topology::Quorum => Box::new(Quorum::with(limits)),
            Topology::Cluster => Box::new(OneNode::with(limits)),
            _ if self.slow == 0 => Box::new(Standalone::with(limits)),
            _ => {
                let clocks = Clocks::correct();
                clocks.gain(&ALL, -self.slow);
                Box::new(Standalone::with(limits).by(clocks))
            }
        }
    }

    pub fn play(self, seed: u64) -> RunResult {
        let mut deployment = self.deployment();
        let schedule = Schedule {
            profile: self.profile,
            plan: self.plan,
            workload: self.workload,
            gap: self.gap,
            mean_gap: self.mean_gap,
            order: self.order,
            fenced: self.fenced,
            lasts: self.lasts,
            ..Schedule::of(self.topology, seed)
        };
        schedule.play_on(&mut *deployment)
    }
}

pub fn step(at: u64, lasts: u64, kind: Kind, on: Target) -> Step {
    Step {
        at: millis(at),
        lasts: millis(lasts),
        kind,
        on,
        otherwise: false,
    }
}

pub fn short() -> Workload {
    Workload {
        pace: BodyLength::Short,
        ..plain()
    }
}

/// Returns the workload of ordinary callers, which give each lock back.
pub fn plain() -> Workload {
    Workload {
        calls: CallKind::USUAL.to_vec(),
        lazy: false,
        without_io: false,
        ..Workload::default()
    }
}

/// The time in which the next call acquires a free lock without other faults: one poll of the first waiter.
pub const SOON: Duration = millis(1300);
