//! Leases of several lengths for one lock, and long leases that are renewed while connections break.

use super::setting::{SOON, Setting, plain, step};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::Target;
use lock_test_support::time::millis;

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
        (0..2).map(move |process| step(at, lasts, kind, Target::Link(process, 0)))
    });
    Setting {
        keys: 10,
        processes: 2,
        workload: Workload {
            tasks: 60,
            calls: vec![
                CallKind::Waits,
                CallKind::Guard,
                CallKind::Continues,
                CallKind::Runs,
                CallKind::Unrenewed,
                CallKind::MaxHold,
            ],
            wait_ms: Some(4000),
            pace: BodyLength::ByTtl,
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

/// Returns the workload of holders that waited for their locks.
fn long_leases() -> Workload {
    Workload {
        tasks: 6,
        calls: vec![CallKind::Waits],
        wait_ms: Some(4000),
        pace: BodyLength::Held { ms: 2300 },
        ttls_ms: vec![30_000, 60_000],
        hand_over_ms: Some(0),
        ..plain()
    }
}

/// The server returns long before any lease ends.
pub fn short_outages() -> Setting {
    let killed = |n: u64| step(700 + n * 2300, 270, Kind::ServerKilled, Target::Server(0));
    Setting {
        keys: 8,
        workload: long_leases(),
        lasts: millis(11_000),
        ..Setting::scripted((0..4).map(killed).collect())
    }
}

/// Connections are killed repeatedly, and each can be replaced in the meantime, on a busy machine too.
pub fn connections_killed() -> Setting {
    let killed = |n: u64| step(500 + n * 25, 0, Kind::ClientsKilled, Target::Server(0));
    Setting {
        // A renewal must be in flight when its connection is killed.
        keys: 40,
        workload: Workload {
            tasks: 24,
            ..long_leases()
        },
        lasts: millis(7000),
        ..Setting::scripted((0..240).map(killed).collect())
    }
}

/// The server refuses releases for a moment, and most leases were acquired without waiting: they last for the
/// whole ttl.
pub fn releases_refused() -> Setting {
    Setting {
        ttl: millis(6000),
        processes: 2,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Guard, CallKind::ReleasesInBackground],
            wait_ms: Some(8000),
            pace: BodyLength::Held { ms: 20 },
            ..plain()
        },
        lasts: millis(8000),
        gap: Some(SOON),
        account: true,
        ..Setting::scripted(vec![step(
            1000,
            200,
            Kind::ScriptsDenied,
            Target::Server(0),
        )])
    }
}

/// The server refuses single commands within scripts, for less time than any lease has left.
pub fn commands_denied() -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 8,
        workload: Workload {
            calls: vec![
                CallKind::Waits,
                CallKind::ThreePermits,
                CallKind::Reads,
                CallKind::Downgrades,
            ],
            wait_ms: Some(4000),
            pace: BodyLength::Held { ms: 3000 },
            ..plain()
        },
        lasts: millis(9000),
        account: true,
        ..Setting::of(&[Kind::CommandDenied])
    }
}
