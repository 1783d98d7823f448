//! Locks on three servers, exclusive or shared, and their fencing tokens: with all rules, and without each.

use lock_model::quorum::Wrong::{FenceFell, TooManyHolders};
use lock_model::quorum::{Quorum, Wrong};
use lock_model::server::UNLIMITED;

const READ: u8 = UNLIMITED;

#[track_caller]
fn is(what: &str, quorum: Quorum, wrong: &[Wrong]) {
    let found = quorum.search();
    println!("{what}: {} states", found.states);
    for (wrong, trace) in &found.wrong {
        println!("{wrong:?}: {trace}");
    }
    assert!(found.is(wrong), "{what}: not {wrong:?}: {:?}", found.wrong);
}

#[test]
fn quorum_with_all_rules_is_safe() {
    is("2 clients", Quorum::default(), &[]);
    let lost = Quorum {
        lost: 1,
        ..Quorum::default()
    };
    is("2 clients, an answer lost", lost, &[]);
    let counts = Quorum {
        by_clock: false,
        ..Quorum::default()
    };
    is("no clocks, if no member loses data", counts, &[]);
    let late = Quorum {
        in_time: false,
        ..Quorum::default()
    };
    is("ended claims count", late, &[FenceFell]);
}

#[test]
fn quorum_without_stored_numbers_breaks_fencing() {
    let one_phase = Quorum {
        clients: 3,
        ticks: 0,
        stores: false,
        by_clock: false,
        ..Quorum::default()
    };
    is("numbers are not stored", one_phase, &[FenceFell]);
    let clocks = Quorum {
        counts: false,
        by_clock: true,
        stores: false,
        ahead: [0, 50, -50],
        ..Quorum::default()
    };
    is("clocks alone", clocks, &[FenceFell]);
}

#[test]
fn quorum_member_back_within_a_ttl_breaks_exclusion() {
    let restart = Quorum {
        restarts: 1,
        ..Quorum::default()
    };
    is("away for a ttl", restart, &[]);
    let at_once = Quorum { away: 0, ..restart };
    is("back at once", at_once, &[FenceFell, TooManyHolders]);
    let counts = Quorum {
        by_clock: false,
        ..restart
    };
    is("away for a ttl, no clocks", counts, &[FenceFell]);
    let remembers = Quorum {
        forgets: false,
        away: 0,
        by_clock: false,
        ..restart
    };
    is("back at once, nothing forgotten", remembers, &[]);
}

#[test]
fn quorum_clock_ahead_by_more_than_a_ttl_breaks_fencing() {
    let restart = Quorum {
        restarts: 1,
        ..Quorum::default()
    };
    let ahead = Quorum {
        ahead: [50, 0, 0],
        ..restart
    };
    is("a clock ahead by less than a ttl", ahead, &[]);
    let far_ahead = Quorum {
        ahead: [300, 0, 0],
        ..restart
    };
    is("a clock ahead by more than a ttl", far_ahead, &[FenceFell]);
}

#[test]
fn quorum_readers_and_writers_exclude_each_other() {
    for limits in [[1, READ, READ], [READ, 1, READ], [READ, READ, 1]] {
        let fenced = Quorum {
            limits,
            ..Quorum::default()
        };
        is("2 clients, fencing tokens", fenced, &[]);
        let disturbed = Quorum {
            ticks: 3,
            ttl: 2,
            lost: 1,
            late: 1,
            repeats: true,
            fences: false,
            ..fenced
        };
        is("2 clients, answers lost, late, repeated", disturbed, &[]);
        let three = Quorum {
            clients: 3,
            ticks: 1,
            ttl: 1,
            ..disturbed
        };
        is("3 clients", three, &[]);
    }
}

#[test]
fn quorum_lease_from_the_last_request_breaks_exclusion() {
    let last = Quorum {
        limits: [READ, 1, 1],
        ticks: 3,
        ttl: 2,
        lost: 1,
        repeats: true,
        from_first: false,
        fences: false,
        ..Quorum::default()
    };
    is("a repeated vote", last, &[TooManyHolders]);
}

/// Each member counts only the holders that it knows.
#[test]
fn quorum_permits_admit_too_many_holders() {
    let permits = Quorum {
        clients: 3,
        limits: [2; 3],
        ticks: 0,
        fences: false,
        ..Quorum::default()
    };
    is("two permits for three", permits, &[TooManyHolders]);
}
