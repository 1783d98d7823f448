//! Leases of several lengths for one lock, and long leases that are renewed while connections break.

use super::setting::{SOON, Setting, plain, step};
use crate::event::Way;
use crate::fault::Kind;
use crate::order::{Habit, Pace};
use crate::plan::On;
use crate::support::time::millis;

/// Within a process a lock passes between guards with all ttls, while replies take longer than a renewal of
/// the shortest lease may wait for them.
pub fn several_ttls() -> Setting {
    let steps = [
        (200, 1500, Kind::RepliesDelayed),
        (1800, 1500, Kind::RequestsDelayed),
        (3400, 1500, Kind::RepliesDelayed),
        (5000, 1500, Kind::RequestsDelayed),
        (6600, 2000, Kind::Delayed),
    ];
    let steps = steps.into_iter().flat_map(|(at, lasts, kind)| {
        (0..2).map(move |seat| step(at, lasts, kind, On::Link(seat, 0)))
    });
    Setting {
        keys: 10,
        seats: 2,
        habit: Habit {
            tasks: 60,
            ways: vec![
                Way::Waits,
                Way::Guard,
                Way::Continues,
                Way::Runs,
                Way::Unrenewed,
                Way::MaxHold,
            ],
            wait_ms: Some(4000),
            pace: Pace::ByTtl,
            ttls_ms: vec![800, 30_000, 60_000],
            hand_over_ms: Some(1200),
            ..plain()
        },
        lasts: millis(8800),
        // Bodies send no request, since a reply would take too long.
        fenced: Some(false),
        ..Setting::scripted(steps.collect())
    }
}

/// Returns the habit of holders that waited for their locks.
fn long_leases() -> Habit {
    Habit {
        tasks: 6,
        ways: vec![Way::Waits],
        wait_ms: Some(4000),
        pace: Pace::Held { ms: 2300 },
        ttls_ms: vec![30_000, 60_000],
        hand_over_ms: Some(0),
        ..plain()
    }
}

/// The server returns long before any lease ends.
pub fn short_outages() -> Setting {
    let killed = |n: u64| step(700 + n * 2300, 270, Kind::ServerKilled, On::Server(0));
    Setting {
        keys: 8,
        habit: long_leases(),
        lasts: millis(11_000),
        ..Setting::scripted((0..4).map(killed).collect())
    }
}

/// Connections are killed repeatedly, and each can be replaced at once.
pub fn connections_killed() -> Setting {
    let killed = |n: u64| step(500 + n * 20, 0, Kind::ClientsKilled, On::Server(0));
    Setting {
        keys: 8,
        habit: long_leases(),
        lasts: millis(7000),
        ..Setting::scripted((0..300).map(killed).collect())
    }
}

/// The server refuses releases for a moment, and most leases were acquired without waiting: they last for the
/// whole ttl.
pub fn releases_refused() -> Setting {
    Setting {
        ttl: millis(6000),
        seats: 2,
        habit: Habit {
            tasks: 2,
            ways: vec![Way::Guard, Way::ReleasesInBackground],
            wait_ms: Some(8000),
            pace: Pace::Held { ms: 20 },
            ..plain()
        },
        lasts: millis(8000),
        gap: Some(SOON),
        account: true,
        ..Setting::scripted(vec![step(1000, 200, Kind::ScriptsDenied, On::Server(0))])
    }
}
