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
use crate::worker::{Habit, Pace};

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
    gap: Option<Duration>,
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
            gap: None,
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
            gap: self.gap,
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

fn short() -> Habit {
    Habit {
        pace: Pace::Short,
        ..Habit::default()
    }
}

/// As long as nothing else happens, a lock is had by the next as soon as the first in the queue has asked.
const SOON: Duration = millis(1300);

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

/// Whoever waits is the first to do so, and asks again soon.
pub fn lost_messages() -> Scene {
    Scene {
        ttl: millis(6000),
        keys: 1,
        seats: 2,
        habit: Habit {
            ways: vec![Way::Waits],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(SOON),
        ..Scene::of(&[Kind::MessagesLost])
    }
}

pub fn many_give_up() -> Scene {
    Scene {
        ttl: millis(6000),
        keys: 1,
        habit: Habit {
            tasks: 1,
            ways: vec![Way::Waits, Way::Dropped],
            ..short()
        },
        gap: Some(SOON),
        ..Scene::of(&[])
    }
}

/// Of connections that have been given up by then.
pub fn late_requests() -> Scene {
    Scene {
        ttl: millis(6000),
        habit: Habit {
            tasks: 2,
            ways: vec![Way::Waits, Way::Dropped],
            ..short()
        },
        gap: Some(SOON),
        ..Scene::of(&[Kind::Stranded])
    }
}

/// Of holds that are over for their own process.
pub fn late_releases() -> Scene {
    Scene {
        stop: millis(700),
        ..Scene::of(&[Kind::RepliesHeld, Kind::ReplyLost, Kind::Stranded])
    }
}

/// Two of three processes that wait are killed at once.
pub fn killed_waiters() -> Scene {
    let killed = |at, seat| step(at, 0, Kind::WorkerKilled, On::Seat(seat));
    Scene {
        ttl: millis(6000),
        keys: 1,
        habit: Habit {
            ways: vec![Way::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(4000),
        gap: Some(millis(2500)),
        ..Scene::scripted(vec![
            step(500, 2500, Kind::KeyOverwritten, On::Key(0)),
            killed(2500, 0),
            killed(2510, 1),
        ])
    }
}

pub fn killed_holders() -> Scene {
    Scene {
        habit: Habit {
            ways: vec![Way::Waits],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(millis(3000)),
        ..Scene::of(&[Kind::WorkerKilled])
    }
}

/// One process is alone with its lock while another waits.
pub fn slow_clock() -> Scene {
    Scene {
        ttl: millis(4000),
        keys: 1,
        seats: 2,
        slow: 9000,
        habit: Habit {
            tasks: 1,
            ways: vec![Way::Waits],
            wait_ms: Some(60_000),
            pace: Pace::Lingering,
        },
        lasts: millis(8000),
        ..Scene::scripted(vec![step(1500, 6000, Kind::BlackHole, On::Link(0, 0))])
    }
}

/// A process waits, asks once more, is stopped, and is granted the lock. What it has asked arrives then.
pub fn requests_of_the_stopped() -> Scene {
    let steps = vec![
        step(500, 3000, Kind::KeyOverwritten, On::Key(0)),
        step(1500, 3200, Kind::RequestsHeld, On::Link(0, 0)),
        step(2800, 8000, Kind::WorkerStopped, On::Seat(0)),
    ];
    Scene {
        ttl: millis(8000),
        keys: 1,
        seats: 2,
        habit: Habit {
            ways: vec![Way::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(11_000),
        gap: Some(millis(2500)),
        ..Scene::scripted(steps)
    }
}

/// A process waits, asks once more, and is killed. What it has asked arrives half a minute later.
pub fn requests_of_the_dead() -> Scene {
    let overwritten = |key| step(500, 3500, Kind::KeyOverwritten, On::Key(key));
    let mut steps: Vec<_> = (0..3).map(overwritten).collect();
    steps.push(step(2000, 29_000, Kind::RequestsHeld, On::Link(0, 0)));
    steps.push(step(3300, 0, Kind::WorkerKilled, On::Seat(0)));
    // Nobody has the locks then.
    steps.push(step(24_500, 7500, Kind::WorkerStopped, On::Seat(1)));
    Scene {
        ttl: millis(6000),
        seats: 2,
        habit: Habit {
            ways: vec![Way::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(38_000),
        gap: Some(millis(2500)),
        ..Scene::scripted(steps)
    }
}
