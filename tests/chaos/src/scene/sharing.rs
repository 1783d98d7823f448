//! Locks that several callers share.

use super::setting::{Setting, plain, short};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use lock_test_support::time::millis;

/// There are so many readers that one of them nearly always holds the lock, unless they wait for writers.
pub fn readers_and_writers() -> Setting {
    Setting {
        keys: 1,
        workload: Workload {
            calls: CallKind::READERS.to_vec(),
            first_calls: vec![vec![CallKind::Waits]],
            wait_ms: Some(5000),
            pace: BodyLength::Held { ms: 30 },
            ..plain()
        },
        ..Setting::of(&[])
    }
}

/// The processes disagree about the number of permits, and some hold the lock exclusively.
pub fn permits() -> Setting {
    let also = |kind| [&[kind; 7][..], &[CallKind::Waits]].concat();
    Setting {
        keys: 1,
        workload: Workload {
            calls: also(CallKind::ThreePermits),
            first_calls: vec![also(CallKind::TwoPermits), also(CallKind::ThreePermits)],
            wait_ms: Some(5000),
            ..short()
        },
        ..Setting::of(&[])
    }
}

/// Leases end one by one, while other holders renew theirs.
pub fn readers_killed() -> Setting {
    Setting {
        keys: 1,
        workload: Workload {
            calls: vec![CallKind::Reads, CallKind::TwoPermits, CallKind::Waits],
            pace: BodyLength::Held { ms: 300 },
            ..plain()
        },
        ..Setting::of(&[Kind::WorkerKilled, Kind::WorkerStopped])
    }
}

/// A lease that was acquired later than another one ends before it.
pub fn several_ttls_of_readers() -> Setting {
    Setting {
        workload: Workload {
            calls: vec![CallKind::Reads, CallKind::ReadsByHand, CallKind::TwoPermits],
            wait_ms: Some(5000),
            pace: BodyLength::Held { ms: 200 },
            ttls_ms: vec![800, 6000],
            ..plain()
        },
        ..Setting::of(&[])
    }
}

/// Downgrades are sent again, since their replies are late.
pub fn downgrades() -> Setting {
    Setting {
        ttl: millis(3000),
        keys: 2,
        workload: Workload {
            calls: vec![CallKind::Downgrades, CallKind::Downgrades, CallKind::Reads],
            wait_ms: Some(5000),
            pace: BodyLength::Held { ms: 150 },
            ..plain()
        },
        ..Setting::of(&[Kind::RepliesHeld, Kind::RepliesDelayed, Kind::ReplyLost])
    }
}

/// Calls for several keys have some of them while they wait for another, for longer than a lease lasts.
pub fn keys_acquired_slowly() -> Setting {
    Setting {
        processes: 6,
        workload: Workload {
            tasks: 1,
            calls: vec![CallKind::Waits, CallKind::Transfers],
            first_calls: vec![vec![CallKind::Transfers]; 2],
            wait_ms: Some(30_000),
            pace: BodyLength::Held { ms: 1000 },
            ..plain()
        },
        lasts: millis(8000),
        ..Setting::of(&[])
    }
}

/// Calls update two or three of six accounts, and others read one.
pub fn transfers() -> Setting {
    Setting {
        keys: 6,
        workload: Workload {
            calls: vec![
                CallKind::Transfers,
                CallKind::Transfers,
                CallKind::Reads,
                CallKind::Waits,
            ],
            wait_ms: Some(5000),
            ..short()
        },
        ..Setting::of(&[Kind::WorkerStopped, Kind::WorkerKilled])
    }
}
