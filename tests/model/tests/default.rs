//! The protocol as it is, and what may come of it when messages are lost or slow, clients stand still,
//! crash or give up: never two holders, and an end to everything. Times are in ticks; a ttl has three.

use lock_model::search::search;
use lock_model::world::{Faults, Setting};

/// Nothing is wrong in any state, and the longest times are these: of a stall, an orphan, a holder who
/// doesn't know, a ghost in the queue, a holder that has crashed or stands still.
#[track_caller]
fn holds(what: &str, setting: &Setting, most: [u8; 5]) {
    let found = search(setting);
    if let Some((violation, trace)) = found.violation {
        panic!("{what}: {violation:?}\n{trace}");
    }
    let times = found.most.each_ref().map(|(time, _)| *time);
    println!("{what}: {} states, {times:?}", found.states);
    for ((time, trace), expected) in found.most.iter().zip(most) {
        assert_eq!(*time, expected, "{what}: {times:?}\n{trace}");
    }
}

#[test]
fn slow_and_lost_messages() {
    let faults = Faults {
        slow: 2,
        ..Faults::NONE
    };
    holds("2 slow", &Setting::new(2, 9, faults), [4, 3, 3, 0, 0]);
    let mut patient = Setting::new(2, 9, faults);
    patient.conduct.patience = 4;
    holds("2 slow, longer than a lease", &patient, [8, 3, 3, 0, 0]);
    let faults = Faults {
        lost: 2,
        ..Faults::NONE
    };
    holds("2 lost", &Setting::new(2, 12, faults), [4, 3, 3, 0, 0]);
    let faults = Faults {
        slow: 1,
        lost: 1,
        ..Faults::NONE
    };
    let mut tries_first = Setting::new(2, 9, faults);
    tries_first.conduct.tries_first = true;
    holds(
        "slow, lost, no queue at first",
        &tries_first,
        [4, 3, 3, 0, 0],
    );
}

/// What is put first in each state, so that there are fewer of them, hides nothing.
#[test]
fn every_order() {
    let faults = Faults {
        slow: 1,
        lost: 1,
        ..Faults::NONE
    };
    let mut setting = Setting::new(2, 8, faults);
    holds("slow, lost", &setting, [4, 3, 3, 0, 0]);
    setting.bounds.every_order = true;
    holds("slow, lost, every order", &setting, [4, 3, 3, 0, 0]);
}

#[test]
fn cancels() {
    let faults = Faults {
        slow: 1,
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "slow, lost, cancel",
        &Setting::new(2, 9, faults),
        [4, 3, 3, 3, 0],
    );
    let mut setting = Setting::new(2, 8, faults);
    setting.conduct.in_order = false;
    holds("the same, out of order", &setting, [7, 3, 3, 5, 0]);
}

#[test]
fn crashes() {
    let faults = Faults {
        crash: 1,
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "crash, lost, cancel",
        &Setting::new(2, 12, faults),
        [5, 2, 2, 2, 3],
    );
    let faults = Faults {
        crash: 1,
        slow: 1,
        ..Faults::NONE
    };
    let mut setting = Setting::new(2, 10, faults);
    holds("crash, slow", &setting, [5, 2, 2, 0, 3]);
    setting.bounds.half_open = true;
    holds("crash unnoticed, slow", &setting, [5, 2, 2, 0, 3]);
}

#[test]
fn clocks() {
    let faults = Faults {
        pause: 1,
        slow: 1,
        renew: 1,
        ..Faults::NONE
    };
    holds(
        "pause, slow, renew",
        &Setting::new(2, 7, faults),
        [5, 2, 2, 0, 5],
    );
    let faults = Faults {
        drift: 1,
        slow: 1,
        ..Faults::NONE
    };
    let mut slow_clock = Setting::new(2, 9, faults);
    slow_clock.rules.ttl = 5;
    slow_clock.rules.grant = 2;
    slow_clock.conduct.margin = 1;
    holds("slow clock, slow", &slow_clock, [3, 2, 3, 0, 0]);
    let faults = Faults {
        fence: 2,
        slow: 1,
        renew: 1,
        ..Faults::NONE
    };
    holds(
        "fence, slow, renew",
        &Setting::new(2, 4, faults),
        [2, 2, 2, 0, 0],
    );
}

#[test]
fn crowds() {
    let faults = Faults {
        crash: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "3, crash, cancel",
        &Setting::new(3, 9, faults),
        [4, 0, 0, 0, 3],
    );
    let faults = Faults {
        slow: 1,
        ..Faults::NONE
    };
    holds("3, slow", &Setting::new(3, 6, faults), [2, 2, 2, 0, 0]);
    let faults = Faults {
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "3, lost, cancel",
        &Setting::new(3, 6, faults),
        [3, 2, 2, 2, 0],
    );
    holds("4", &Setting::new(4, 7, Faults::NONE), [0, 0, 0, 0, 0]);
}

#[test]
fn again_and_again() {
    let faults = Faults {
        slow: 1,
        ..Faults::NONE
    };
    let mut twice = Setting::new(2, 6, faults);
    twice.bounds.holds = 2;
    holds("2 holds each, slow", &twice, [2, 2, 2, 0, 0]);
}
