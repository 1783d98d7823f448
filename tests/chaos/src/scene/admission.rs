//! Waiters that fit beside the holders enter at once.

use std::time::Duration;

use super::setting::{SOON, Setting, plain, step};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::Target;
use lock_test_support::time::millis;

/// The longest mean time until a release or a cancellation has let the next waiters in. On a busy machine it
/// takes 4 ms, and 10 ms or more if the waiters have to poll.
const AT_ONCE: Duration = millis(8);

/// Returns the workload of processes that make one call after the other, without local handoff.
fn one_by_one(calls: &[CallKind], pace: BodyLength) -> Workload {
    Workload {
        tasks: 1,
        calls: calls.to_vec(),
        wait_ms: Some(60_000),
        pace,
        hand_over_ms: Some(0),
        ..plain()
    }
}

/// Holders leave beside others.
pub fn permits_passed_on() -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 1,
        processes: 6,
        workload: one_by_one(&[CallKind::ThreePermits], BodyLength::UpTo { ms: 1500 }),
        lasts: millis(8000),
        mean_gap: Some(AT_ONCE),
        ..Setting::of(&[])
    }
}

/// A writer leaves a row of readers behind it. One that has to poll enters 250 ms later, too seldom for a
/// mean to show it.
pub fn readers_enter_together() -> Setting {
    const MOSTLY: [CallKind; 7] = [CallKind::Reads; 7];
    Setting {
        ttl: millis(6000),
        keys: 1,
        processes: 6,
        workload: one_by_one(
            &[&MOSTLY[..], &[CallKind::Waits]].concat(),
            BodyLength::UpTo { ms: 1500 },
        ),
        lasts: millis(8000),
        gap: Some(millis(150)),
        ..Setting::of(&[])
    }
}

/// Writers that give up leave readers behind them, while others hold the lock.
pub fn writers_give_up() -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 1,
        processes: 6,
        workload: Workload {
            // Otherwise the next call of the one that gave up would let them in.
            pause_ms: 500,
            patience_ms: 1000,
            ..one_by_one(
                &[CallKind::Dropped, CallKind::Reads, CallKind::Reads],
                BodyLength::UpTo { ms: 1500 },
            )
        },
        lasts: millis(8000),
        mean_gap: Some(AT_ONCE),
        ..Setting::of(&[])
    }
}

/// A holder is killed, while another one renews its own lease.
pub fn permits_killed() -> Setting {
    const TTL: Duration = millis(800);
    Setting {
        ttl: TTL,
        keys: 1,
        workload: one_by_one(&[CallKind::TwoPermits], BodyLength::Held { ms: 5000 }),
        lasts: millis(5000),
        gap: Some(TTL.saturating_add(SOON)),
        ..Setting::scripted(vec![step(1200, 0, Kind::WorkerKilled, Target::Process(0))])
    }
}

/// A writer that waits is killed, while readers hold the lock for long and others wait behind it.
pub fn silent_writers() -> Setting {
    writers_that(Kind::WorkerKilled, 0)
}

/// A writer that waits is stopped.
pub fn stopped_writers() -> Setting {
    writers_that(Kind::WorkerStopped, 6000)
}

fn writers_that(ends: Kind, lasts: u64) -> Setting {
    Setting {
        // Less than the gap: the writer may hold the lock instead of waiting.
        ttl: millis(2000),
        keys: 1,
        processes: 6,
        workload: Workload {
            first_calls: vec![vec![CallKind::Waits]],
            ..one_by_one(&[CallKind::Reads], BodyLength::UpTo { ms: 10_000 })
        },
        lasts: millis(9000),
        gap: Some(millis(2200)),
        ..Setting::scripted(vec![step(1500, lasts, ends, Target::Process(0))])
    }
}

/// Two processes try all the time, and keep the lock for a moment each time; others wait for it.
pub fn pollers() -> Setting {
    Setting {
        keys: 1,
        processes: 4,
        workload: Workload {
            tasks: 1,
            calls: vec![CallKind::Waits, CallKind::Keeps],
            first_calls: vec![vec![CallKind::Polls], vec![CallKind::Polls]],
            wait_ms: Some(10_000),
            pace: BodyLength::Short,
            pause_ms: 3,
            ..plain()
        },
        order: true,
        ..Setting::of(&[])
    }
}
