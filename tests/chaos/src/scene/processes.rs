//! Threads, runtimes and subscribers of the callers fail, while the server has no fault.

use std::time::Duration;

use super::setting::{Setting, plain, short, step};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::{Profile, Target};
use lock_test_support::time::millis;

/// The time in which the next call acquires a lock whose guard was dropped just before its thread was
/// blocked.
const SOON: Duration = millis(300);

/// Other callers try many locks once at the same time.
pub fn blocked_after_a_drop() -> Setting {
    Setting {
        keys: 6,
        workload: Workload {
            tasks: 3,
            calls: vec![
                CallKind::ThenBlocks,
                CallKind::OwnRuntime,
                CallKind::TriesOnce,
                CallKind::Waits,
            ],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[])
    }
}

/// Runtimes of all kinds, one after the other, with and without I/O.
pub fn runtimes_that_end() -> Setting {
    Setting {
        workload: Workload {
            without_io: true,
            ..short()
        },
        profile: Profile {
            pause: millis(150),
            ..Profile::only(&[Kind::RuntimeDropped])
        },
        ..Setting::of(&[])
    }
}

pub fn thread_locals() -> Setting {
    Setting {
        workload: Workload {
            calls: vec![CallKind::ThreadLocal, CallKind::OwnRuntime, CallKind::Waits],
            wait_ms: Some(5000),
            ..short()
        },
        lasts: millis(2000),
        ..Setting::of(&[])
    }
}

/// The subscriber panics when some locks are lost; the others must still be renewed.
pub fn panicking_subscriber() -> Setting {
    let deleted = |n: u64| step(500 + 700 * n, 0, Kind::KeyDeleted, Target::Key(0));
    let mut steps: Vec<_> = (0..3).map(deleted).collect();
    steps.push(step(2600, 100, Kind::ConnectionsCut, Target::Link(0, 0)));
    Setting {
        workload: Workload {
            calls: vec![CallKind::Waits, CallKind::Guard],
            wait_ms: Some(3000),
            pace: BodyLength::Lingering,
            panicking_log: true,
            ..plain()
        },
        lasts: millis(6000),
        ..Setting::scripted(steps)
    }
}
