//! Removes each rule of the protocol once, and finds the resulting violation.

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
            panic!("{what} is not the cause: {shows:?}\n{trace}");
        }
        if let Shows::Longer(time, most) = shows {
            assert_eq!(search(&case.with).most[time].0, most, "{what}");
        }
    }
}

#[test]
fn missing_deadline_rule_has_a_counterexample() {
    show(left_out::deadlines());
}

#[test]
fn missing_tenure_rule_has_a_counterexample() {
    show(left_out::tenure());
}

#[test]
fn missing_polling_rule_has_a_counterexample() {
    show(left_out::asking_again());
}

#[test]
fn missing_cancel_rule_has_a_counterexample() {
    show(left_out::giving_up());
}

#[test]
fn missing_late_request_rule_has_a_counterexample() {
    show(left_out::late_requests());
}

#[test]
fn missing_dead_waiter_rule_has_a_counterexample() {
    show(left_out::the_dead());
}

#[test]
fn missing_vacant_lock_rule_has_a_counterexample() {
    show(left_out::vacant_locks());
}

#[test]
fn missing_failover_rule_has_a_counterexample() {
    show(left_out::failovers());
}
