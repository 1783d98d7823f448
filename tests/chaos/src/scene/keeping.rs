//! Processes keep locks between their calls, and others want them.

use super::setting::{SOON, Setting, short, step};
use crate::fault::Kind;
use crate::instructions::Workload;
use crate::journal::CallKind;
use crate::plan::{Profile, Target};
use lock_test_support::time::millis;

/// The calls for each key are so few that it is kept more often than held.
fn seldom_called(pause_ms: u64) -> Workload {
    Workload {
        tasks: 2,
        calls: vec![
            CallKind::Waits,
            CallKind::Guard,
            CallKind::Runs,
            CallKind::Dropped,
        ],
        lazy: true,
        wait_ms: Some(5000),
        pause_ms,
        ..short()
    }
}

/// A tenure is longer than a call may have to wait.
pub fn kept_locks_recalled() -> Setting {
    Setting {
        ttl: millis(9000),
        keys: 8,
        workload: seldom_called(300),
        gap: Some(SOON),
        ..Setting::of(&[])
    }
}

/// No recall arrives for most of the time: locks are given back when their tenure is over. Their leases are
/// so long that they can be renewed.
pub fn recalls_lost() -> Setting {
    let lost = |process| step(100, 4500, Kind::MessagesLost, Target::Link(process, 0));
    Setting {
        ttl: millis(1500),
        keys: 8,
        workload: seldom_called(300),
        gap: Some(SOON),
        ..Setting::scripted((0..3).map(lost).collect())
    }
}

/// Keepers are stopped, cut off and killed, and recalls are lost.
pub fn keepers_fail() -> Setting {
    Setting {
        workload: seldom_called(100),
        profile: Profile {
            pause: millis(100),
            ..Profile::only(&[
                Kind::WorkerKilled,
                Kind::WorkerStopped,
                Kind::RuntimeDropped,
                Kind::BlackHole,
                Kind::MessagesLost,
                Kind::ClientsKilled,
            ])
        },
        ..Setting::of(&[])
    }
}
