//! Removes each rule of the protocol once, and finds the resulting violation.

use lock_model::mutations::{self, Evidence, Mutation};
use lock_model::search::search;

#[track_caller]
fn show(cases: Vec<Mutation>) {
    for case in cases {
        let (what, shows) = (case.what, case.shows);
        let trace = case.counter_example();
        let trace = trace.unwrap_or_else(|| panic!("{what}: no {shows:?}"));
        println!("{what}: {shows:?}\n{trace}");
        match shows {
            Evidence::Wrong(_) => {
                if let Some(trace) = shows.first(&case.with) {
                    panic!("{what} is not the cause: {shows:?}\n{trace}");
                }
            }
            Evidence::Longer(time, most) => {
                let found = search(&case.with);
                if let Some((violation, trace)) = found.violation {
                    panic!("{what}: {violation:?}\n{trace}");
                }
                let (longest, trace) = &found.most[time];
                assert_eq!(*longest, most, "{what}\n{trace}");
            }
        }
    }
}

#[test]
fn missing_deadline_rule_has_a_counterexample() {
    show(mutations::deadlines());
}

#[test]
fn missing_tenure_rule_has_a_counterexample() {
    show(mutations::tenure());
}

#[test]
fn missing_polling_rule_has_a_counterexample() {
    show(mutations::asking_again());
}

#[test]
fn missing_cancel_rule_has_a_counterexample() {
    show(mutations::giving_up());
}

#[test]
fn missing_late_request_rule_has_a_counterexample() {
    show(mutations::late_requests());
}

#[test]
fn missing_dead_waiter_rule_has_a_counterexample() {
    show(mutations::the_dead());
}

#[test]
fn missing_vacant_lock_rule_has_a_counterexample() {
    show(mutations::vacant_locks());
}

#[test]
fn missing_sharing_rule_has_a_counterexample() {
    show(mutations::sharing());
}

#[test]
fn missing_failover_rule_has_a_counterexample() {
    show(mutations::failovers());
}
