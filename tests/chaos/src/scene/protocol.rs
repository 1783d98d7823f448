//! Situations in which a missing rule of the protocol does harm.

use super::setting::{SOON, Setting, plain, short, step};
use crate::fault::Kind;
use crate::instructions::{BodyLength, Workload};
use crate::journal::CallKind;
use crate::plan::Target;
use lock_test_support::time::millis;

pub fn all_is_well() -> Setting {
    Setting {
        lasts: millis(1000),
        ..Setting::of(&[])
    }
}

pub fn late_messages() -> Setting {
    Setting::of(&[Kind::WorkerStopped, Kind::RepliesHeld])
}

/// Replies are late by less than the time after which a request is given up.
pub fn late_replies() -> Setting {
    Setting {
        ttl: millis(500),
        stop: millis(500),
        ..Setting::of(&[Kind::WorkerStopped, Kind::RepliesHeld, Kind::Delayed])
    }
}

pub fn stopped_bodies() -> Setting {
    Setting::of(&[Kind::WorkerStopped, Kind::BlackHole])
}

/// Every waiter is the first in the queue, and polls soon.
pub fn lost_messages() -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 1,
        processes: 2,
        workload: Workload {
            calls: vec![CallKind::Waits],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[Kind::MessagesLost])
    }
}

pub fn many_give_up() -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 1,
        workload: Workload {
            tasks: 1,
            calls: vec![CallKind::Waits, CallKind::Dropped],
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[])
    }
}

/// Requests arrive on connections that have been given up by then.
pub fn late_requests() -> Setting {
    Setting {
        ttl: millis(6000),
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::Waits, CallKind::Dropped],
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[Kind::Stranded])
    }
}

/// Releases arrive of holds that are over for their own process.
pub fn late_releases() -> Setting {
    Setting {
        stop: millis(700),
        ..Setting::of(&[Kind::RepliesHeld, Kind::ReplyLost, Kind::Stranded])
    }
}

/// Two of three waiting processes are killed at once.
pub fn killed_waiters() -> Setting {
    let killed = |at, process| step(at, 0, Kind::WorkerKilled, Target::Process(process));
    Setting {
        ttl: millis(6000),
        keys: 1,
        workload: Workload {
            calls: vec![CallKind::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(4000),
        gap: Some(millis(2500)),
        ..Setting::scripted(vec![
            step(500, 2500, Kind::KeyOverwritten, Target::Key(0)),
            killed(2500, 0),
            killed(2510, 1),
        ])
    }
}

/// Where waiters poll whenever they like, a lock stays without a holder for a ttl and the longest interval.
pub fn killed_holders() -> Setting {
    Setting {
        ttl: millis(2000),
        workload: Workload {
            calls: vec![CallKind::Waits],
            wait_ms: Some(5000),
            ..short()
        },
        gap: Some(millis(3000)),
        ..Setting::of(&[Kind::WorkerKilled])
    }
}

/// One process is cut off with its lock while another waits.
pub fn slow_clock() -> Setting {
    Setting {
        ttl: millis(4000),
        keys: 1,
        processes: 2,
        slow: 9000,
        workload: Workload {
            tasks: 1,
            calls: vec![CallKind::Waits],
            wait_ms: Some(60_000),
            pace: BodyLength::Lingering,
            ..plain()
        },
        lasts: millis(8000),
        ..Setting::scripted(vec![step(1500, 6000, Kind::BlackHole, Target::Link(0, 0))])
    }
}

/// A process waits, polls once more, is stopped, and is granted the lock. Its poll arrives after that.
pub fn requests_of_the_stopped() -> Setting {
    let steps = vec![
        step(500, 3000, Kind::KeyOverwritten, Target::Key(0)),
        step(1500, 3200, Kind::RequestsHeld, Target::Link(0, 0)),
        step(2800, 8000, Kind::WorkerStopped, Target::Process(0)),
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
        gap: Some(millis(2500)),
        ..Setting::scripted(steps)
    }
}

/// A process waits, polls once more, and is killed. Its poll arrives half a minute later.
pub fn requests_of_the_dead() -> Setting {
    let overwritten = |key| step(500, 3500, Kind::KeyOverwritten, Target::Key(key));
    let mut steps: Vec<_> = (0..3).map(overwritten).collect();
    steps.push(step(2000, 29_000, Kind::RequestsHeld, Target::Link(0, 0)));
    steps.push(step(3300, 0, Kind::WorkerKilled, Target::Process(0)));
    // The locks have no holder then.
    steps.push(step(24_500, 7500, Kind::WorkerStopped, Target::Process(1)));
    Setting {
        ttl: millis(6000),
        processes: 2,
        workload: Workload {
            calls: vec![CallKind::Waits],
            wait_ms: Some(60_000),
            ..short()
        },
        lasts: millis(38_000),
        gap: Some(millis(2500)),
        ..Setting::scripted(steps)
    }
}

/// A server returns when no call waits any more for the requests that it was sent.
pub fn frozen_past_the_ttl() -> Setting {
    Setting {
        ttl: millis(5000),
        workload: Workload {
            tasks: 2,
            calls: vec![CallKind::TriesOnce, CallKind::Waits],
            wait_ms: Some(1000),
            ..short()
        },
        lasts: millis(13_000),
        gap: Some(SOON),
        ..Setting::scripted(vec![step(
            1000,
            6000,
            Kind::ServerStopped,
            Target::Server(0),
        )])
    }
}

/// Callers leave while their requests are on the way, and the connections that they used serve others.
pub fn callers_leave() -> Setting {
    Setting {
        ttl: millis(6000),
        keys: 2,
        workload: Workload {
            tasks: 3,
            calls: vec![CallKind::Dropped, CallKind::TriesOnce, CallKind::Waits],
            wait_ms: Some(3000),
            ..short()
        },
        gap: Some(SOON),
        ..Setting::of(&[Kind::RepliesDelayed, Kind::RequestsDelayed])
    }
}
