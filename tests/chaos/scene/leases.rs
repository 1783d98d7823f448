//! Leases of several lengths for one lock, and long ones that are renewed while connections break.

use super::setting::{Setting, plain, step};
use crate::event::Way;
use crate::fault::Kind;
use crate::plan::{On, Profile};
use crate::support::time::millis;
use crate::worker::{Habit, Pace};

/// Within a process a lock passes between guards of all lengths while answers take longer than a renewal of
/// the shortest may wait for them.
pub fn several_ttls() -> Setting {
    let slow = |seat| step(300, 1150, Kind::RepliesDelayed, On::Link(seat, 0));
    let slower = |seat| step(2000, 1400, Kind::Delayed, On::Link(seat, 0));
    let requests = |seat| step(4000, 1000, Kind::RequestsDelayed, On::Link(seat, 0));
    let steps = [slow, slower, requests];
    let steps = steps.iter().flat_map(|step| (0..2).map(step));
    Setting {
        keys: 2,
        seats: 2,
        habit: Habit {
            tasks: 5,
            ways: vec![Way::Waits, Way::Guard, Way::Continues, Way::Unrenewed, Way::MaxHold],
            wait_ms: Some(20_000),
            pace: Pace::Varied,
            ttls_ms: vec![800, 30_000, 60_000],
            hand_over_ms: Some(60_000),
            ..plain()
        },
        lasts: millis(6000),
        ..Setting::scripted(steps.collect())
    }
}

/// Of holders that waited for their locks.
fn long_leases() -> Habit {
    Habit {
        tasks: 4,
        ways: vec![Way::Waits],
        wait_ms: Some(60_000),
        pace: Pace::Held { ms: 2600 },
        ttls_ms: vec![30_000, 60_000],
        hand_over_ms: Some(0),
        ..plain()
    }
}

/// The server is there again long before any lease ends.
pub fn short_outages() -> Setting {
    let killed = |n: u64| step(700 + n * 2300, 270, Kind::ServerKilled, On::Server(0));
    Setting {
        keys: 4,
        habit: long_leases(),
        lasts: millis(11_000),
        ..Setting::scripted((0..4).map(killed).collect())
    }
}

/// Again and again, and each can be made anew at once.
pub fn connections_killed() -> Setting {
    Setting {
        keys: 4,
        habit: long_leases(),
        lasts: millis(6000),
        profile: Profile {
            pause: millis(20),
            ..Profile::only(&[Kind::ClientsKilled])
        },
        ..Setting::of(&[])
    }
}
