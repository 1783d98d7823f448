//! Locks that are taken from their holders.

use super::setting::{SOON, Setting, plain, short, step};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::{Profile, Target};
use lock_test_support::time::millis;

/// Holders are asked for their locks all the time, and some do not come to an await, or keep their guards;
/// from some the locks are taken meanwhile.
pub fn locks_asked_for() -> Setting {
    Setting {
        workload: Workload {
            calls: vec![
                CallKind::Waits,
                CallKind::Blocks,
                CallKind::ThenBlocks,
                CallKind::Guard,
                CallKind::Continues,
            ],
            wait_ms: Some(10_000),
            pace: BodyLength::Held { ms: 2000 },
            ..plain()
        },
        profile: Profile {
            pause: millis(25),
            ..Profile::only(&[Kind::Ask, Kind::Ask, Kind::Force])
        },
        fenced: Some(true),
        ..Setting::of(&[])
    }
}

/// Locks are taken all the time, some at the moment at which they are passed on.
pub fn locks_taken() -> Setting {
    Setting {
        ttl: millis(6000),
        workload: Workload {
            calls: vec![
                CallKind::Waits,
                CallKind::TriesOnce,
                CallKind::Guard,
                CallKind::Continues,
                CallKind::Watches,
            ],
            wait_ms: Some(10_000),
            pace: BodyLength::UpTo { ms: 100 },
            ..plain()
        },
        profile: Profile {
            pause: millis(25),
            ..Profile::only(&[Kind::Force])
        },
        gap: Some(SOON),
        fenced: Some(true),
        ..Setting::of(&[])
    }
}

/// A process waits, polls once more, is stopped, and is granted the lock, which is taken from it. Its poll
/// arrives after that.
pub fn requests_of_the_taken() -> Setting {
    let steps = vec![
        step(500, 3000, Kind::KeyOverwritten, Target::Key(0)),
        step(1500, 4500, Kind::RequestsHeld, Target::Link(0, 0)),
        step(2800, 8000, Kind::WorkerStopped, Target::Process(0)),
        // By the other process, as the number is odd.
        step(3801, 0, Kind::Force, Target::HolderElsewhere(0)),
    ];
    Setting {
        ttl: millis(8000),
        keys: 1,
        processes: 2,
        workload: Workload {
            calls: vec![CallKind::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(11_000),
        gap: Some(SOON),
        ..Setting::scripted(steps)
    }
}
