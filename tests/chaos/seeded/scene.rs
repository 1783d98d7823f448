//! Where a rule that is left out does harm.

use std::time::Duration;

use crate::checker::{Verdict, check};
use crate::event::Way;
use crate::fault::Kind;
use crate::ground::{Place, Rules, Standalone};
use crate::plan::{On, Plan, Profile, Step};
use crate::schedule::Schedule;
use crate::support::clocks::{ALL, Clocks};
use crate::support::time::millis;
use crate::worker::Habit;

pub struct Scene {
    ttl: Duration,
    keys: u32,
    seats: usize,
    /// How long a server or a network is away at most.
    stop: Duration,
    habit: Habit,
    lasts: Duration,
    profile: Profile,
    plan: Option<Plan>,
    /// By how much the clocks of the first process are slow, in millionths.
    slow: i64,
}

impl Scene {
    fn of(kinds: &[Kind]) -> Self {
        Self {
            ttl: millis(800),
            keys: 3,
            seats: 3,
            stop: millis(2000),
            habit: Habit::default(),
            lasts: millis(5000),
            profile: Profile::only(kinds),
            plan: None,
            slow: 0,
        }
    }

    fn scripted(steps: Vec<Step>) -> Self {
        Self {
            plan: Some(Plan { steps }),
            ..Self::of(&[])
        }
    }

    pub fn play(self, seed: u64) -> Verdict {
        let mut ground = Standalone::with(Rules {
            keys: self.keys,
            seats: self.seats,
            stop: self.stop,
            ..Standalone::that_remembers(self.ttl)
        });
        if self.slow > 0 {
            let clocks = Clocks::new();
            clocks.gain(&ALL, -self.slow);
            ground = ground.by(clocks);
        }
        let schedule = Schedule {
            profile: self.profile,
            plan: self.plan,
            habit: self.habit,
            lasts: self.lasts,
            ..Schedule::of(Place::Standalone, seed)
        };
        check(&schedule.play_on(&mut ground).history)
    }
}

fn step(at: u64, lasts: u64, kind: Kind, on: On) -> Step {
    Step {
        at: millis(at),
        lasts: millis(lasts),
        kind,
        on,
        otherwise: false,
    }
}

pub fn all_is_well() -> Scene {
    Scene {
        lasts: millis(1000),
        ..Scene::of(&[])
    }
}

pub fn late_messages() -> Scene {
    Scene::of(&[Kind::WorkerStopped, Kind::RepliesHeld])
}

/// By less than it takes to give up an unanswered request.
pub fn late_replies() -> Scene {
    Scene {
        ttl: millis(500),
        stop: millis(500),
        ..Scene::of(&[Kind::WorkerStopped, Kind::RepliesHeld, Kind::Delayed])
    }
}

pub fn stopped_bodies() -> Scene {
    Scene::of(&[Kind::WorkerStopped, Kind::BlackHole])
}

pub fn lost_messages() -> Scene {
    Scene {
        ttl: millis(6000),
        ..Scene::of(&[Kind::MessagesLost, Kind::ReplyLost])
    }
}

pub fn many_give_up() -> Scene {
    Scene {
        ttl: millis(6000),
        habit: Habit {
            ways: vec![Way::Waits, Way::Dropped],
            ..Habit::default()
        },
        ..Scene::of(&[])
    }
}

pub fn late_requests() -> Scene {
    Scene {
        ttl: millis(6000),
        habit: Habit {
            ways: vec![Way::Waits, Way::Dropped],
            ..Habit::default()
        },
        ..Scene::of(&[Kind::RequestsHeld])
    }
}

pub fn late_releases() -> Scene {
    Scene {
        stop: millis(1000),
        habit: Habit {
            tasks: 1,
            ways: vec![Way::Waits, Way::Dropped],
            ..Habit::default()
        },
        ..Scene::of(&[Kind::RepliesHeld, Kind::ReplyLost, Kind::BlackHole])
    }
}

pub fn killed_waiters() -> Scene {
    Scene {
        ttl: millis(3000),
        keys: 1,
        habit: Habit {
            patient: true,
            ..Habit::default()
        },
        ..Scene::of(&[Kind::WorkerKilled])
    }
}

pub fn killed_holders() -> Scene {
    Scene::of(&[Kind::WorkerKilled])
}

/// What a process asks for is held until it has been killed.
pub fn requests_of_the_dead() -> Scene {
    Scene {
        keys: 1,
        ..Scene::scripted(vec![])
    }
}

/// One process is alone with its lock while another waits.
pub fn slow_clock() -> Scene {
    let on = On::Link(0, 0);
    Scene {
        ttl: millis(4000),
        keys: 1,
        seats: 2,
        slow: 9000,
        habit: Habit {
            tasks: 1,
            ways: vec![Way::Waits],
            patient: true,
            lingers: true,
        },
        lasts: millis(8000),
        ..Scene::scripted(vec![step(1500, 6000, Kind::BlackHole, on)])
    }
}

/// A process waits, is cut off, and is killed; what it asked for last arrives half a minute later.
pub fn requests_of_the_long_dead() -> Scene {
    let overwritten = |key| step(500, 3500, Kind::KeyOverwritten, On::Key(key));
    let mut steps: Vec<_> = (0..3).map(overwritten).collect();
    steps.push(step(2000, 29_000, Kind::RequestsHeld, On::Link(0, 0)));
    steps.push(step(3300, 0, Kind::WorkerKilled, On::Seat(0)));
    Scene {
        ttl: millis(4000),
        seats: 2,
        habit: Habit {
            ways: vec![Way::Waits],
            patient: true,
            ..Habit::default()
        },
        lasts: millis(36_000),
        ..Scene::scripted(steps)
    }
}
