//! Injects the planned faults and records them.

mod command;
mod cure;
mod harm;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock;
use crate::crew::Crew;
use crate::fault::{Fault, Keys, Kind};
use crate::ground::Ground;
use crate::plan::{On, Plan, Step};
use crate::support::time::millis;
use cure::{Cure, UnderWay};

pub struct Nemesis<'a> {
    ground: &'a mut dyn Ground,
    crew: &'a mut Crew,
    under_way: Vec<UnderWay>,
    asked: Vec<JoinHandle<Option<Fault>>>,
    /// The servers that have a fault, each with the end of its effect.
    trouble: Vec<(usize, Instant)>,
    faults: Vec<Fault>,
}

const LONG: Duration = millis(45_000);

/// How long clients and servers may take to notice a fault.
const NOTICED: Duration = millis(500);

impl<'a> Nemesis<'a> {
    pub fn new(ground: &'a mut dyn Ground, crew: &'a mut Crew) -> Self {
        Self {
            ground,
            crew,
            under_way: Vec::new(),
            asked: Vec::new(),
            trouble: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Plays the plan, and returns after `lasts`.
    pub fn play(&mut self, plan: &Plan, lasts: Duration) {
        let start = Instant::now();
        for step in &plan.steps {
            self.tend_until(start + step.at);
            self.begin(step);
        }
        self.tend_until(start + lasts);
    }

    /// Ends all faults that still last. Returns all faults, or `None` if the servers do not agree on a
    /// topology.
    pub fn heal(mut self) -> Option<Vec<Fault>> {
        let start = Instant::now();
        let mut is_well = false;
        while !is_well && start.elapsed() < LONG {
            self.tend();
            is_well = self.under_way.is_empty() && self.ground.is_settled();
            thread::sleep(millis(20));
        }
        for asked in std::mem::take(&mut self.asked) {
            self.faults.extend(asked.join().unwrap());
        }
        is_well.then_some(self.faults)
    }

    fn tend_until(&mut self, time: Instant) {
        loop {
            self.tend();
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
        }
    }

    fn later(&mut self, fault: Fault, lasts: Duration, cure: Cure) {
        let since = Instant::now();
        self.under_way.push(UnderWay {
            fault,
            since,
            until: since + lasts,
            cure,
        });
    }

    /// Returns the server, or `None` if it is down.
    fn present(&self, on: On) -> Option<usize> {
        let server = match on {
            On::Server(server) => server,
            On::Serving(key) | On::Door(key) | On::Key(key) => self.ground.serving(key)?,
            On::Seat(_) | On::Link(..) => unreachable!("{on:?} is not a server"),
        };
        let mut gone = self.under_way.iter().filter_map(|it| it.cure.server());
        gone.all(|gone| gone != server).then_some(server)
    }

    /// Returns the server, or `None` if it or too many others are down already.
    fn server_of(&self, on: On) -> Option<usize> {
        let server = self.present(on)?;
        // The servers could not elect a master if another one failed as well.
        let is_chosen = |it: &UnderWay| it.fault.kind == Kind::Failover;
        if self.under_way.iter().any(is_chosen) {
            return None;
        }
        let gone = self.under_way.iter().filter_map(|it| it.cure.server());
        let may_be = gone.count() < self.ground.rules().away;
        (may_be && self.ground.may_begin()).then_some(server)
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
            fault.away = servers.len() >= self.ground.rules().needed;
        }
        if self.ground.forgets_by(step.kind, server) {
            fault.forgotten = Some(Keys::All);
        }
    }
}
