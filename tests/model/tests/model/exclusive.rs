//! The complete protocol when messages are lost or slow and clients pause, crash or give up: never two
//! holders, and every wait ends. Times are in ticks; a ttl has three.

use super::holds;
use lock_model::world::{Faults, Setting};

#[test]
fn lost_or_slow_messages_break_nothing() {
    let faults = Faults {
        slow: 2,
        ..Faults::NONE
    };
    holds("2 slow", &Setting::new(2, 9, faults), &[4, 3, 3, 0, 0]);
    let mut patient = Setting::new(2, 9, faults);
    patient.conduct.patience = 4;
    holds("2 slow, longer than a lease", &patient, &[8, 3, 3, 0, 0]);
    let faults = Faults {
        lost: 2,
        ..Faults::NONE
    };
    holds("2 lost", &Setting::new(2, 12, faults), &[4, 3, 3, 0, 0]);
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
        &[4, 3, 3, 0, 0],
    );
}

/// The fixed order of some events, which reduces the number of states, hides nothing.
#[test]
fn exploring_every_order_finds_no_more() {
    let faults = Faults {
        slow: 1,
        lost: 1,
        ..Faults::NONE
    };
    let mut setting = Setting::new(2, 8, faults);
    holds("slow, lost", &setting, &[4, 3, 3, 0, 0]);
    setting.bounds.every_order = true;
    holds("slow, lost, every order", &setting, &[4, 3, 3, 0, 0]);
}

#[test]
fn canceled_waits_break_nothing() {
    let faults = Faults {
        slow: 1,
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "slow, lost, cancel",
        &Setting::new(2, 9, faults),
        &[4, 3, 3, 3, 0],
    );
    let mut setting = Setting::new(2, 8, faults);
    setting.conduct.in_order = false;
    holds("the same, out of order", &setting, &[7, 3, 3, 5, 0]);
}

#[test]
fn crashed_clients_break_nothing() {
    let faults = Faults {
        crash: 1,
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "crash, lost, cancel",
        &Setting::new(2, 12, faults),
        &[5, 2, 2, 2, 3],
    );
    let faults = Faults {
        crash: 1,
        slow: 1,
        ..Faults::NONE
    };
    let mut setting = Setting::new(2, 10, faults);
    holds("crash, slow", &setting, &[5, 2, 2, 0, 3]);
    setting.bounds.half_open = true;
    holds("crash unnoticed, slow", &setting, &[5, 2, 2, 0, 3]);
}

#[test]
fn paused_clients_and_slow_clocks_break_nothing() {
    let faults = Faults {
        pause: 1,
        slow: 1,
        renew: 1,
        ..Faults::NONE
    };
    holds(
        "pause, slow, renew",
        &Setting::new(2, 7, faults),
        &[5, 2, 2, 0, 5],
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
    holds("slow clock, slow", &slow_clock, &[3, 2, 3, 0, 0]);
    let faults = Faults {
        fence: 2,
        slow: 1,
        renew: 1,
        ..Faults::NONE
    };
    holds(
        "fence, slow, renew",
        &Setting::new(2, 4, faults),
        &[2, 2, 2, 0, 0],
    );
}

#[test]
fn three_or_four_clients_break_nothing() {
    let faults = Faults {
        crash: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "3, crash, cancel",
        &Setting::new(3, 9, faults),
        &[4, 0, 0, 0, 3],
    );
    let faults = Faults {
        slow: 1,
        ..Faults::NONE
    };
    holds("3, slow", &Setting::new(3, 6, faults), &[2, 2, 2, 0, 0]);
    let faults = Faults {
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    holds(
        "3, lost, cancel",
        &Setting::new(3, 6, faults),
        &[3, 2, 2, 2, 0],
    );
    holds("4", &Setting::new(4, 7, Faults::NONE), &[0, 0, 0, 0, 0]);
}

#[test]
fn repeated_holds_break_nothing() {
    let faults = Faults {
        slow: 1,
        ..Faults::NONE
    };
    let mut twice = Setting::new(2, 6, faults);
    twice.bounds.holds = 2;
    holds("2 holds each, slow", &twice, &[2, 2, 2, 0, 0]);
}
