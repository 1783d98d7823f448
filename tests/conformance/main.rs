//! Requirements for every engine and topology: each case is written once, and runs on all of them.
//!
//! `LOCK_CASES=queue::` runs only the cases whose names contain that, and `LOCK_CASE_TIMES=1` prints how long
//! each case took.

mod attribute;
mod cancel;
mod cases;
mod exit;
mod fencing;
mod keys;
mod lease;
mod loss;
mod queue;
mod site;
mod topology;
mod waiting;

use topology::{InCluster, Memory, Quorum, Sentinel, Standalone};

#[test]
fn memory() {
    cases::run(Memory::start());
}

#[test]
fn standalone() {
    cases::run(Standalone::start());
}

#[test]
fn standalone_on_one_thread() {
    cases::run_on_one_thread(Standalone::start());
}

#[test]
fn sentinel() {
    cases::run(Sentinel::start());
}

#[test]
fn cluster() {
    cases::run(InCluster::start());
}

#[test]
fn quorum_of_3() {
    cases::run(Quorum::of(3));
}

#[test]
fn quorum_of_5() {
    cases::run(Quorum::of(5));
}
