//! Locks in etcd: the line of claims, and requests that come late.

use super::setting::{SOON, Setting, plain, short, step};
use crate::deployment::Topology;
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::{Step, Target};
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

/// Requests of one process arrive on connections that it has given up by then. The others, whose network
/// works, would wait for what such a request writes until its lease has ended, which is long after.
pub fn late_writes() -> Setting {
    let stranded = |n: u64| step(500 + n * 2000, 1100, Kind::Stranded, Target::Link(0, 0));
    Setting {
        ttl: millis(6000),
        // Only a lock that is free is acquired late.
        keys: 8,
        workload: Workload {
            tasks: 4,
            calls: vec![CallKind::Waits, CallKind::TriesOnce],
            wait_ms: Some(5000),
            ..short()
        },
        lasts: millis(9000),
        gap: Some(millis(2000)),
        ..in_etcd(Setting::scripted((0..3).map(stranded).collect()))
    }
}

/// Releases find no server. None can arrive before its network is back, and the next call acquires the lock
/// soon after that.
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

/// Calls wait and hold for longer than leases last that are not kept alive.
fn long(steps: Vec<Step>) -> Setting {
    in_etcd(Setting {
        keys: 2,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits, CallKind::Guard, CallKind::TriesOnce],
            wait_ms: Some(10_000),
            pace: BodyLength::UpTo { ms: 4000 },
            ..plain()
        },
        lasts: millis(16_000),
        ..Setting::scripted(steps)
    })
}

/// Leases that were kept alive are revoked.
pub fn revoked_leases() -> Setting {
    long(vec![step(0, 0, Kind::LeasesRevoked, Target::Server(0))])
}

/// The leader of three is frozen for longer than leases last. When it resumes, it finds them ended.
pub fn resumed_leader() -> Setting {
    let frozen = |n: u64| {
        step(
            1000 + n * 4500,
            3100,
            Kind::ServerStopped,
            Target::Serving(0),
        )
    };
    Setting {
        members: 3,
        ..long((0..3).map(frozen).collect())
    }
}
