//! The parameters of a scene.

use std::time::Duration;

use crate::event::Way;
use crate::fault::Kind;
use crate::ground::{Ground, OneNode, Place, Rules, Standalone};
use crate::order::{Habit, Pace};
use crate::plan::{On, Plan, Profile, Step};
use crate::schedule::{Played, Schedule};
use crate::support::clocks::{ALL, Clocks};
use crate::support::time::millis;

pub struct Setting {
    pub place: Place,
    pub ttl: Duration,
    pub keys: u32,
    pub seats: usize,
    /// The longest outage of a server or a network.
    pub stop: Duration,
    pub habit: Habit,
    pub lasts: Duration,
    pub profile: Profile,
    pub plan: Option<Plan>,
    pub gap: Option<Duration>,
    pub order: bool,
    pub fenced: Option<bool>,
    /// How much the clocks of the first process are slow, in millionths.
    pub slow: i64,
    /// `account`: the workers have an ACL user of their own; `overheard`: another client receives all
    /// messages.
    pub account: bool,
    pub overheard: bool,
}

impl Setting {
    pub fn of(kinds: &[Kind]) -> Self {
        Self {
            place: Place::Standalone,
            ttl: millis(800),
            keys: 3,
            seats: 3,
            stop: millis(2000),
            habit: plain(),
            lasts: millis(5000),
            profile: Profile::only(kinds),
            plan: None,
            gap: None,
            order: false,
            fenced: None,
            slow: 0,
            account: false,
            overheard: false,
        }
    }

    pub fn scripted(steps: Vec<Step>) -> Self {
        Self {
            plan: Some(Plan { steps }),
            ..Self::of(&[])
        }
    }

    fn ground(&self) -> Box<dyn Ground> {
        let rules = Rules {
            keys: self.keys,
            seats: self.seats,
            stop: self.stop,
            account: self.account,
            overheard: self.overheard,
            ..Standalone::that_remembers(self.ttl)
        };
        if self.place == Place::Cluster {
            return Box::new(OneNode::with(rules));
        }
        let ground = Standalone::with(rules);
        if self.slow == 0 {
            return Box::new(ground);
        }
        let clocks = Clocks::new();
        clocks.gain(&ALL, -self.slow);
        Box::new(ground.by(clocks))
    }

    pub fn play(self, seed: u64) -> Played {
        let mut ground = self.ground();
        let schedule = Schedule {
            profile: self.profile,
            plan: self.plan,
            habit: self.habit,
            gap: self.gap,
            order: self.order,
            fenced: self.fenced,
            lasts: self.lasts,
            ..Schedule::of(self.place, seed)
        };
        schedule.play_on(&mut *ground)
    }
}

pub fn step(at: u64, lasts: u64, kind: Kind, on: On) -> Step {
    Step {
        at: millis(at),
        lasts: millis(lasts),
        kind,
        on,
        otherwise: false,
    }
}

pub fn short() -> Habit {
    Habit {
        pace: Pace::Short,
        ..plain()
    }
}

/// Returns the habit of ordinary callers.
pub fn plain() -> Habit {
    Habit {
        ways: Way::USUAL.to_vec(),
        without_io: false,
        ..Habit::default()
    }
}

/// The time in which the next call acquires a free lock without other faults: one poll of the first waiter.
pub const SOON: Duration = millis(1300);
