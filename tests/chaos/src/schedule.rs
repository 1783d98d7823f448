//! One schedule: its plan, its execution and its history.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::deployment::{Deployment, Topology};
use crate::fault::{Fault, FaultTarget, Keys};
use crate::history::{History, Promises};
use crate::instructions::{Instructions, Workload};
use crate::journal::{self, CallKind};
use crate::leaks::{connected, left, uncleared};
use crate::nemesis::Nemesis;
use crate::plan::{Plan, Profile};
use crate::resource::Resource;
use crate::revocation::{self, Revocation};
use crate::witness::Witness;
use crate::worker_pool::WorkerPool;
use lock_test_support::rng::Rng;
use lock_test_support::server::temporary;
use lock_test_support::time::millis;

/// The parameters of a schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub topology: Topology,
    pub seed: u64,
    pub profile: Profile,
    /// The faults; random if `None`.
    pub plan: Option<Plan>,
    pub workload: Workload,
    /// The longest time until the next call acquires a lock, if the faults of this schedule determine it.
    pub gap: Option<Duration>,
    /// The longest mean of these times, where servers pass a lock on without delay.
    pub mean_gap: Option<Duration>,
    /// `true` if arrival order is kept whatever the plan.
    pub order: bool,
    /// `true` if the resource compares tokens; random if `None`.
    pub fenced: Option<bool>,
    /// The time during which faults begin.
    pub lasts: Duration,
}

/// The result of a schedule.
pub struct RunResult {
    pub topology: Topology,
    /// `None` for a random schedule.
    pub scene: Option<&'static str>,
    pub variant: &'static str,
    pub seed: u64,
    pub took: Duration,
    pub plan: Plan,
    pub history: History,
}

impl Schedule {
    pub fn of(topology: Topology, seed: u64) -> Self {
        let workload = match (seed.is_multiple_of(2), topology) {
            (false, _) => Workload::default(),
            (true, Topology::Quorum) => Workload::mixed(&CallKind::READERS),
            (true, _) => Workload::mixed(&[&CallKind::READERS[..], &CallKind::COUNTED].concat()),
        };
        Self {
            topology,
            seed,
            profile: Profile::everything(),
            plan: None,
            workload: match seed % 4 >= 2 {
                true => workload.routed(),
                false => workload,
            },
            gap: None,
            mean_gap: None,
            order: false,
            fenced: None,
            lasts: millis(4000),
        }
    }

    pub fn play(&self) -> RunResult {
        // Another process may take a port first.
        let start = || catch_unwind(|| self.topology.start(self.seed)).ok();
        let play = || self.try_play_on(&mut *start()?);
        // Servers may never agree on a topology, which says nothing about locks.
        let mut played = std::iter::repeat_with(play).take(3).flatten();
        played.next().expect("the servers settle")
    }

    /// Plays on a deployment that has been started before.
    pub fn play_on(&self, deployment: &mut dyn Deployment) -> RunResult {
        self.try_play_on(deployment).expect("the servers settle")
    }

    fn try_play_on(&self, deployment: &mut dyn Deployment) -> Option<RunResult> {
        let start = Instant::now();
        let limits = deployment.limits().clone();
        let chance = || Plan::of(self.seed, &limits, &self.profile, self.lasts);
        let plan = self.plan.clone().unwrap_or_else(chance);
        let mut rng = Rng::with(self.seed.wrapping_mul(0xBF58_476D_1CE4_E5B9));
        let directory = temporary("chaos-");
        let chance = !rng.one_in(3);
        let fenced = self.fenced.unwrap_or(chance);
        let resource = Resource::open(directory.path(), fenced);
        let instructions =
            self.instructions(deployment, &resource, directory.path(), fenced, &mut rng);
        let processes = (0..limits.processes)
            .map(|process| (deployment.urls(process), deployment.environment(process)));
        let mut pool = WorkerPool::start(instructions, processes.collect());
        let witness = Witness::start(deployment.witnessed(), limits.keys);
        let mut nemesis = Nemesis::new(deployment, &mut pool);
        nemesis.play(&plan, self.lasts);
        let (mut faults, left_behind, mut failovers) = nemesis.recover()?;
        if limits.changes {
            faults.iter_mut().for_each(let_fail_over);
        }
        let workers = pool.count();
        let mut history = History {
            faults,
            left: pool.end(),
            samples: witness.end(),
            promises: self.promises(&plan, fenced),
            ..History::default()
        };
        history.left.extend(left_behind);
        history.left.extend(connected(deployment));
        history.left.extend(uncleared(deployment, &history.faults));
        drop(pool);
        let journal = |worker| Instructions::journal(directory.path(), worker);
        let journals = (0..workers).map(journal);
        // A worker that was killed before it began has none.
        let journals = journals.filter(|journal| journal.exists());
        history.events = journals
            .flat_map(|journal| journal::read(&journal))
            .collect();
        let revoked = revocation::all(&history.events);
        let revoked = revoked.iter().filter_map(Revocation::fault);
        history.faults.extend(revoked);
        history.writes = resource.writes();
        history.left.extend(left(deployment));
        history.faults.extend(failovers.unplanned(deployment));
        Some(RunResult {
            topology: self.topology,
            scene: None,
            variant: limits.variant,
            seed: self.seed,
            took: start.elapsed(),
            plan,
            history,
        })
    }

    fn instructions(
        &self,
        deployment: &dyn Deployment,
        resource: &Resource,
        directory: &Path,
        fenced: bool,
        rng: &mut Rng,
    ) -> Instructions {
        let limits = deployment.limits();
        Instructions {
            urls: String::new(),
            first: 0,
            managers: limits.managers,
            keys: limits.keys,
            ttl_ms: limits.ttl.as_millis() as u64,
            seed: rng.below(u64::MAX),
            journals: directory.to_owned(),
            resource: resource.socket().to_owned(),
            fenced,
            replicas: limits.replicas,
            user: limits.credentials(),
            workload: self.workload.clone(),
        }
    }

    /// Order is promised only if no fault makes servers lose a queue or become unreachable. The members of a
    /// quorum may have different queues, and agree only on writers.
    fn promises(&self, plan: &Plan, fenced: bool) -> Promises {
        let mut steps = plan.steps.iter();
        let keeps_order = [FaultTarget::Process, FaultTarget::Holder];
        let has_one_queue = self.topology != Topology::Quorum || !self.workload.is_mixed();
        Promises {
            order: self.order
                || has_one_queue && steps.all(|step| keeps_order.contains(&step.kind.target())),
            fenced,
            gap: self.gap.map(|gap| gap.as_nanos() as u64),
            mean_gap: self.mean_gap.map(|gap| gap.as_nanos() as u64),
        }
    }
}

/// Extends a fault by the time of a failover, which continues once begun even if the master has returned.
fn let_fail_over(fault: &mut Fault) {
    const FAILOVER: u64 = 5_000_000_000;
    if fault.forgotten == Some(Keys::All) {
        fault.until += FAILOVER;
    }
}
