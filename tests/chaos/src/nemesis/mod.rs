//! Injects the planned faults and records them.

mod command;
mod failovers;
mod inject;
mod recover;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock;
use crate::deployment::Deployment;
use crate::fault::{Fault, Keys, Kind};
use crate::plan::{Plan, Step, Target};
use crate::worker_pool::WorkerPool;
pub use failovers::Failovers;
use lock_test_support::time::millis;
use recover::{Recovery, UnderWay};

pub struct Nemesis<'a> {
    deployment: &'a mut dyn Deployment,
    pool: &'a mut WorkerPool,
    under_way: Vec<UnderWay>,
    called: Vec<JoinHandle<Option<Fault>>>,
    /// The servers that have a fault, each with the end of its effect.
    trouble: Vec<(usize, Instant)>,
    faults: Vec<Fault>,
    /// What processes have left behind that ended in an ordinary way.
    left: Vec<String>,
    failovers: Failovers,
}

const LONG: Duration = millis(45_000);

/// How long clients and servers may take to notice a fault.
const NOTICED: Duration = millis(500);

impl<'a> Nemesis<'a> {
    pub fn new(deployment: &'a mut dyn Deployment, pool: &'a mut WorkerPool) -> Self {
        Self {
            failovers: Failovers::new(deployment),
            deployment,
            pool,
            under_way: Vec::new(),
            called: Vec::new(),
            trouble: Vec::new(),
            faults: Vec::new(),
            left: Vec::new(),
        }
    }

    /// Plays the plan, and returns after `lasts`.
    pub fn play(&mut self, plan: &Plan, lasts: Duration) {
        let start = Instant::now();
        for step in &plan.steps {
            self.recover_until(start + step.at);
            self.notice_failover();
            self.begin(step);
        }
        self.recover_until(start + lasts);
    }

    /// Ends all faults that still last. Returns all faults, what processes have left behind, and what notices
    /// failovers from then on; or `None` if the servers do not agree on a topology.
    pub fn recover(mut self) -> Option<(Vec<Fault>, Vec<String>, Failovers)> {
        let start = Instant::now();
        let mut is_well = false;
        while !is_well && start.elapsed() < LONG {
            self.recover_due();
            is_well = self.under_way.is_empty() && self.deployment.is_settled();
            thread::sleep(millis(20));
        }
        for called in std::mem::take(&mut self.called) {
            self.faults.extend(called.join().unwrap());
        }
        self.notice_failover();
        is_well.then_some((self.faults, self.left, self.failovers))
    }

    fn notice_failover(&mut self) {
        self.faults
            .extend(self.failovers.unplanned(&*self.deployment));
        for it in &self.under_way {
            self.failovers.expect(&it.fault);
        }
    }

    fn recover_until(&mut self, time: Instant) {
        loop {
            self.recover_due();
            let now = Instant::now();
            if now >= time {
                return;
            }
            thread::sleep((time - now).min(millis(5)));
        }
    }

    fn fault(&self, kind: Kind, target: String) -> Fault {
        Fault {
            kind,
            target,
            from: clock::now(),
            until: 0,
            workers: Vec::new(),
            forgotten: None,
            away: false,
            vain: false,
        }
    }

    fn later(&mut self, fault: Fault, lasts: Duration, recovery: Recovery) {
        self.failovers.expect(&fault);
        let since = Instant::now();
        self.under_way.push(UnderWay {
            fault,
            since,
            until: since + lasts,
            recovery,
        });
    }

    /// Returns the server, or `None` if it is down.
    fn present(&self, on: Target) -> Option<usize> {
        let server = match on {
            Target::Server(server) => server,
            Target::Serving(key) | Target::Door(key) | Target::Key(key) => {
                self.deployment.serving(key)?
            }
            Target::Process(_)
            | Target::Link(..)
            | Target::Holder(_)
            | Target::HolderElsewhere(_) => {
                unreachable!("{on:?} is not a server")
            }
        };
        let mut gone = self.under_way.iter().filter_map(|it| it.recovery.server());
        gone.all(|gone| gone != server).then_some(server)
    }

    /// Returns the server, or `None` if it or too many others are down already.
    fn server_of(&self, on: Target) -> Option<usize> {
        let server = self.present(on)?;
        // The servers could not elect a master if another one failed as well.
        let is_chosen = |it: &UnderWay| it.fault.kind == Kind::Failover;
        if self.under_way.iter().any(is_chosen) {
            return None;
        }
        let gone = self.under_way.iter().filter_map(|it| it.recovery.server());
        let may_be = gone.count() < self.deployment.limits().away;
        (may_be && self.deployment.may_begin()).then_some(server)
    }

    /// Records in `fault` whether locks may be unavailable or lost because of it.
    fn excuse(&mut self, fault: &mut Fault, step: &Step, server: usize) {
        if step.kind.silences() || matches!(step.kind, Kind::ReplyLost | Kind::ClientsKilled) {
            let now = Instant::now();
            self.trouble.retain(|(_, until)| *until > now);
            self.trouble.push((server, now + step.lasts + NOTICED));
            let mut servers: Vec<_> = self.trouble.iter().map(|(server, _)| *server).collect();
            servers.sort_unstable();
            servers.dedup();
            fault.away = servers.len() >= self.deployment.limits().needed;
        }
        if self.deployment.forgets_by(step.kind, server) {
            fault.forgotten = Some(Keys::All);
        }
    }
}
