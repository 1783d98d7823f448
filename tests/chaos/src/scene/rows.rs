//! Several waiters at the front of a queue are gone, and live ones wait behind them.

use std::time::Duration;

use super::setting::{Setting, short, step};
use crate::deployment::Topology;
use crate::fault::Kind;
use crate::instructions::Workload;
use crate::journal::CallKind;
use crate::plan::Target;
use lock_test_support::time::millis;

/// The number of waiters that are gone at once.
const GONE: usize = 3;

/// The delay that they may cause for the next waiter: a grant for the first, a little for each, and the time
/// to notice that a lease has run out.
const GAP: Duration = millis(2000 + 200 * GONE as u64 + 400);

/// All processes wait; then some are gone, and the lock becomes free.
fn row(kind: Kind, on: impl Fn(usize) -> Target) -> Setting {
    let mut steps = vec![step(500, 2500, Kind::KeyOverwritten, Target::Key(0))];
    let lasts = match kind {
        Kind::WorkerKilled => 0,
        _ => 8000,
    };
    steps.extend((0..GONE).map(|process| step(2500 + process as u64, lasts, kind, on(process))));
    Setting {
        ttl: millis(6000),
        keys: 1,
        processes: GONE + 1,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(8000),
        gap: Some(GAP),
        ..Setting::scripted(steps)
    }
}

pub fn stopped_in_a_row() -> Setting {
    row(Kind::WorkerStopped, Target::Process)
}

pub fn cut_off_in_a_row() -> Setting {
    row(Kind::BlackHole, |process| Target::Link(process, 0))
}

/// Every message has a subscriber, although the process it is meant for is gone.
pub fn killed_and_overheard() -> Setting {
    Setting {
        overheard: true,
        ..row(Kind::WorkerKilled, Target::Process)
    }
}

pub fn killed_in_a_cluster() -> Setting {
    Setting {
        topology: Topology::Cluster,
        ..row(Kind::WorkerKilled, Target::Process)
    }
}
