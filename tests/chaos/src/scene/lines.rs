//! Locks in etcd: the line of claims, and requests that come late.

use super::setting::{SOON, Setting, plain, short};
use crate::deployment::Topology;
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use lock_test_support::time::millis;

fn in_etcd(setting: Setting) -> Setting {
    Setting {
        topology: Topology::Etcd,
        ttl: millis(1500),
        ..setting
    }
}

/// Readers, holders of permits and exclusive holders stand in one line.
pub fn mixed_line() -> Setting {
    in_etcd(Setting {
        keys: 1,
        workload: Workload {
            calls: vec![CallKind::Reads, CallKind::TwoPermits, CallKind::Waits],
            wait_ms: Some(5000),
            pace: BodyLength::Held { ms: 30 },
            ..plain()
        },
        ..Setting::of(&[])
    })
}

/// Requests arrive on connections that have been given up by then.
pub fn late_writes() -> Setting {
    in_etcd(Setting {
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits, CallKind::Dropped, CallKind::TriesOnce],
            wait_ms: Some(2000),
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[Kind::Stranded, Kind::RequestsHeld])
    })
}

/// Releases find no server. None can arrive before its network is back, and the next call acquires the lock soon after
/// that.
pub fn releases_cut_off() -> Setting {
    in_etcd(Setting {
        stop: millis(600),
        workload: Workload {
            tasks: 3,
            calls: vec![CallKind::Waits, CallKind::Guard, CallKind::TriesOnce],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[Kind::ConnectionsCut, Kind::BlackHole])
    })
}
