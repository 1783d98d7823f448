//! Locks in ZooKeeper: leaders that freeze, and requests whose answers are lost.

use super::setting::{Setting, plain, short, step};
use crate::deployment::Topology;
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::Target;
use lock_test_support::time::millis;
use std::time::Duration;

/// Sessions continue after a moment on another connection. A node that is left behind blocks the lock for
/// longer.
const BLOCKED: Duration = Duration::from_secs(3);

fn in_zookeeper(setting: Setting) -> Setting {
    Setting {
        topology: Topology::ZooKeeper,
        ..setting
    }
}

/// The leader is frozen for longer than sessions live. The others answer pings and reads meanwhile, and wait
/// for it.
pub fn frozen_leader() -> Setting {
    let frozen = |n: u64| {
        step(
            1000 + n * 3500,
            1300 + n * 150,
            Kind::ServerStopped,
            Target::Serving(0),
        )
    };
    in_zookeeper(Setting {
        sync_limit: Some(30),
        keys: 2,
        workload: Workload {
            tasks: 3,
            calls: vec![CallKind::Waits, CallKind::TriesOnce],
            wait_ms: Some(5000),
            pace: BodyLength::UpTo { ms: 2000 },
            ..plain()
        },
        lasts: millis(15_000),
        ..Setting::scripted((0..4).map(frozen).collect())
    })
}

/// Requests arrive on connections that have been given up by then, at servers of which another serves the
/// session now.
pub fn late_claims() -> Setting {
    in_zookeeper(Setting {
        sync_limit: Some(30),
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits, CallKind::Dropped, CallKind::TriesOnce],
            wait_ms: Some(2000),
            ..short()
        },
        gap: Some(BLOCKED),
        ..Setting::of(&[Kind::Stranded, Kind::RequestsHeld])
    })
}

/// Claims and releases get no answer.
pub fn claims_cut_off() -> Setting {
    in_zookeeper(Setting {
        workload: Workload {
            tasks: 3,
            calls: vec![CallKind::Waits, CallKind::Guard, CallKind::TriesOnce],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(BLOCKED),
        ..Setting::of(&[Kind::ReplyLost, Kind::ConnectionsCut])
    })
}

/// Another client deletes claims that wait, while their holders release the lock to them.
pub fn places_deleted() -> Setting {
    let deleted = |n: u64| step(300 + n * 25, 0, Kind::PlaceDeleted, Target::Key(0));
    in_zookeeper(Setting {
        keys: 1,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits],
            wait_ms: Some(5000),
            pace: BodyLength::Held { ms: 20 },
            ..plain()
        },
        ..Setting::scripted((0..180).map(deleted).collect())
    })
}
