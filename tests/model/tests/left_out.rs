//! Each rule of the protocol is left out once, and what comes of it is found.

use lock_model::left_out::{self, Case, Shows};
use lock_model::search::search;

#[track_caller]
fn show(cases: Vec<Case>) {
    for case in cases {
        let (what, shows) = (case.what, case.shows);
        let trace = case.counter_example();
        let trace = trace.unwrap_or_else(|| panic!("{what}: no {shows:?}"));
        println!("{what}: {shows:?}\n{trace}");
        if let Some(trace) = shows.first(&case.with) {
            panic!("{what} is not what it comes from: {shows:?}\n{trace}");
        }
        if let Shows::Longer(time, most) = shows {
            assert_eq!(search(&case.with).most[time].0, most, "{what}");
        }
    }
}

#[test]
fn deadlines() {
    show(left_out::deadlines());
}

#[test]
fn tenure() {
    show(left_out::tenure());
}

#[test]
fn asking_again() {
    show(left_out::asking_again());
}

#[test]
fn giving_up() {
    show(left_out::giving_up());
}

#[test]
fn late_requests() {
    show(left_out::late_requests());
}

#[test]
fn the_dead() {
    show(left_out::the_dead());
}

#[test]
fn vacant_locks() {
    show(left_out::vacant_locks());
}

#[test]
fn failovers() {
    show(left_out::failovers());
}
