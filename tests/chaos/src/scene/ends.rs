//! Processes end in ordinary ways, while they hold locks and wait for them: none is left.

use super::setting::{Setting, short, step};
use crate::fault::Kind;
use crate::instructions::Workload;
use crate::journal::CallKind;
use crate::plan::Target;
use lock_test_support::time::millis;

/// The same, and most locks are kept between their calls.
pub fn keepers_end() -> Setting {
    let usual = ordinary_ends();
    Setting {
        workload: Workload {
            lazy: true,
            pause_ms: 200,
            ..usual.workload
        },
        ..usual
    }
}

/// One process at a time, so that whatever the server still stores is its own. No lease ends by itself.
pub fn ordinary_ends() -> Setting {
    let ends = |n: u64| step(500 + 600 * n, 0, Kind::WorkerEnded, Target::Process(0));
    Setting {
        ttl: millis(30_000),
        keys: 2,
        processes: 1,
        workload: Workload {
            tasks: 6,
            calls: vec![CallKind::Waits, CallKind::Guard, CallKind::TriesOnce],
            wait_ms: Some(5000),
            ..short()
        },
        ..Setting::scripted((0..7).map(ends).collect())
    }
}
