//! Locks in PostgreSQL: numbers that are drawn at the right time, commits that are flushed, and requests that
//! come late.

use super::admission;
use super::setting::{SOON, Setting, plain, short, step};
use crate::deployment::{Beside, Topology};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::{Plan, Target};
use lock_test_support::time::millis;

fn in_postgres(setting: Setting) -> Setting {
    Setting {
        topology: Topology::Postgres,
        ..setting
    }
}

/// All processes want one lock all the time, and ask for a number with each hold.
pub fn crowded_row() -> Setting {
    in_postgres(Setting {
        keys: 1,
        workload: Workload {
            tasks: 6,
            calls: vec![CallKind::TriesOnce, CallKind::Waits],
            wait_ms: Some(5000),
            pause_ms: 2,
            hand_over_ms: Some(0),
            ..short()
        },
        fenced: Some(true),
        ..Setting::of(&[])
    })
}

/// The server crashes while locks are held, and returns before their leases end.
pub fn database_crashes() -> Setting {
    let killed = |n: u64| step(600 + n * 1500, 100, Kind::ServerKilled, Target::Server(0));
    in_postgres(Setting {
        ttl: millis(6000),
        workload: Workload {
            tasks: 4,
            calls: vec![CallKind::TriesOnce, CallKind::Waits],
            wait_ms: Some(4000),
            pace: BodyLength::UpTo { ms: 800 },
            ..plain()
        },
        lasts: millis(8000),
        ..Setting::scripted((0..5).map(killed).collect())
    })
}

/// Holders go on, and release their locks, when others have them.
pub fn late_releases_of_rows() -> Setting {
    in_postgres(Setting {
        keys: 2,
        workload: Workload {
            tasks: 3,
            calls: vec![CallKind::Waits, CallKind::Guard, CallKind::Continues],
            wait_ms: Some(5000),
            pace: BodyLength::UpTo { ms: 300 },
            ..plain()
        },
        ..Setting::of(&[Kind::WorkerStopped])
    })
}

/// Requests arrive on connections that have been given up by then.
pub fn late_statements() -> Setting {
    in_postgres(Setting {
        ttl: millis(6000),
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits, CallKind::Dropped, CallKind::TriesOnce],
            wait_ms: Some(2000),
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[Kind::Stranded])
    })
}

/// The same behind a pooler, whose backends no client can end.
pub fn late_statements_of_a_pooler() -> Setting {
    Setting {
        beside: Beside::Pooler,
        // Waiters of a pooler ask again only every half a second.
        gap: None,
        ..late_statements()
    }
}

/// A standby takes over soon after the first client has made the schema, before anything has let it write
/// that to its disk.
pub fn promoted_at_once() -> Setting {
    in_postgres(Setting {
        keys: 1,
        ttl: millis(6000),
        beside: Beside::Standby,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits],
            wait_ms: Some(1500),
            pace: BodyLength::Held { ms: 20 },
            hand_over_ms: Some(0),
            ..plain()
        },
        lasts: millis(9000),
        ..Setting::scripted(vec![step(1000, 100, Kind::Failover, Target::Key(0))])
    })
}

/// A writer that waits is stopped, while readers hold the lock for long and others wait behind it.
pub fn stopped_writers_in_rows() -> Setting {
    in_postgres(Setting {
        ttl: millis(1500),
        gap: Some(millis(2200 + 800)),
        plan: Some(Plan {
            steps: vec![step(1500, 7000, Kind::WorkerStopped, Target::Process(0))],
        }),
        ..admission::silent_writers()
    })
}

/// Several processes that wait are stopped: each in turn could be granted the lock.
pub fn stopped_in_line() -> Setting {
    const GONE: u64 = 3;
    let stopped = |n: u64| {
        step(
            1500 + n,
            8000,
            Kind::WorkerStopped,
            Target::Process(n as usize),
        )
    };
    in_postgres(Setting {
        ttl: millis(2000),
        keys: 1,
        processes: GONE as usize + 1,
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits],
            wait_ms: Some(60_000),
            pace: BodyLength::Held { ms: 200 },
            ..plain()
        },
        lasts: millis(10_000),
        gap: Some(millis(2000 + 2000 + 200 * GONE + 600)),
        ..Setting::scripted((0..GONE).map(stopped).collect())
    })
}
