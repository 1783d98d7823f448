//! The complete protocol with locks that several clients share: never more holders than the limit of one of
//! them, no waiter is passed, and no lock stays idle for long.

use super::holds;
use lock_model::search::search;
use lock_model::server::UNLIMITED;
use lock_model::world::{Faults, Setting};

const READ: u8 = UNLIMITED;

fn clients(limits: &[u8], ticks: u8, faults: Faults) -> Setting {
    Setting::new(limits.len(), ticks, faults).with_limits(limits)
}

#[test]
fn readers_and_writers_break_nothing() {
    let messages = Faults {
        slow: 1,
        lost: 1,
        cancel: 1,
        ..Faults::NONE
    };
    let crashes = Faults {
        crash: 1,
        slow: 1,
        ..Faults::NONE
    };
    for limits in [[1, READ], [READ, 1], [READ, READ]] {
        let readers = limits == [READ, READ];
        let ghost = if readers { 0 } else { 3 };
        let idle = if readers { 0 } else { 2 };
        let setting = clients(&limits, 9, messages);
        holds(&format!("{limits:?}"), &setting, &[4, 3, 3, ghost, 0, idle]);
        let stall = if readers { 2 } else { 5 };
        let setting = clients(&limits, 10, crashes);
        holds(
            &format!("{limits:?}, crash"),
            &setting,
            &[stall, 2, 2, 0, 3, idle],
        );
    }
}

#[test]
fn three_clients_that_share_break_nothing() {
    let cancel = Faults {
        cancel: 1,
        lost: 1,
        ..Faults::NONE
    };
    let crash = Faults {
        crash: 1,
        renew: 1,
        ..Faults::NONE
    };
    for limits in [
        [READ, READ, 1],
        [READ, 1, READ],
        [1, READ, READ],
        [READ, 2, 1],
        [3, 2, 2],
    ] {
        let mut setting = clients(&limits, 6, cancel);
        setting.conduct.tries_first = true;
        let found = search(&setting);
        if let Some((violation, trace)) = found.violation {
            panic!("{limits:?}: {violation:?}\n{trace}");
        }
        let mut setting = clients(&limits, 8, crash);
        setting.bounds.half_open = true;
        let found = search(&setting);
        if let Some((violation, trace)) = found.violation {
            panic!("{limits:?}: {violation:?}\n{trace}");
        }
    }
}

#[test]
fn downgrades_break_nothing() {
    let faults = Faults {
        downgrade: 1,
        slow: 1,
        lost: 1,
        ..Faults::NONE
    };
    for limits in [[1, 1], [1, READ]] {
        let mut setting = clients(&limits, 8, faults);
        for limits in &mut setting.rules.limits[..2] {
            limits[1..].fill(READ);
        }
        let found = search(&setting);
        if let Some((violation, trace)) = found.violation {
            panic!("{limits:?}: {violation:?}\n{trace}");
        }
    }
}
