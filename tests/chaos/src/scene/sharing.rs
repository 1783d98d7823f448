//! Locks that several callers share.

use super::setting::{Setting, plain};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use lock_test_support::time::millis;

fn calls(calls: &[CallKind]) -> Workload {
    Workload {
        calls: calls.to_vec(),
        pace: BodyLength::Short,
        ..plain()
    }
}

pub fn readers_and_writers() -> Setting {
    Setting {
        keys: 1,
        workload: calls(&[
            CallKind::Reads,
            CallKind::Reads,
            CallKind::ReadsByHand,
            CallKind::Waits,
        ]),
        ..Setting::of(&[])
    }
}

pub fn permits() -> Setting {
    Setting {
        keys: 1,
        workload: calls(&[
            CallKind::TwoPermits,
            CallKind::ThreePermits,
            CallKind::ThreePermits,
            CallKind::Waits,
        ]),
        ..Setting::of(&[])
    }
}

/// Leases end one by one, while other holders renew theirs.
pub fn readers_killed() -> Setting {
    Setting {
        ttl: millis(800),
        keys: 1,
        workload: Workload {
            pace: BodyLength::Held { ms: 300 },
            ..calls(&[CallKind::Reads, CallKind::TwoPermits, CallKind::Waits])
        },
        ..Setting::of(&[Kind::WorkerKilled, Kind::WorkerStopped])
    }
}

pub fn writers_give_up() -> Setting {
    Setting {
        keys: 1,
        workload: calls(&[CallKind::Reads, CallKind::Reads, CallKind::Dropped]),
        ..Setting::of(&[Kind::WorkerStopped])
    }
}

pub fn several_keys() -> Setting {
    Setting {
        keys: 3,
        workload: calls(&[CallKind::AllKeys, CallKind::Reads, CallKind::Waits]),
        ..Setting::of(&[Kind::WorkerStopped])
    }
}
