//! Servers and processes are killed, stopped and started again at random, while a few processes compete
//! for the same locks. What they believed is looked at afterwards.
//!
//! Each schedule is made of a seed, which is printed. `LOCK_SCHEDULES=100` runs a hundred of each
//! kind, `LOCK_SEED=…` one of them again.

mod contender;
mod ground;
mod schedule;
#[path = "../support/mod.rs"]
mod support;

use ground::{Ground, InCluster, Quorum, Sentinel, Standalone};
use support::worker::arguments;

/// In a contender's process that, and in the test itself all schedules of a kind.
fn run<T: Fn() + Copy, G: Ground>(test: T, start: fn(&mut support::dice::Dice) -> G) {
    match arguments() {
        Some(arguments) => contender::compete(&arguments),
        None => schedule::run(test, start),
    }
}

#[test]
fn standalone() {
    run(standalone, Standalone::start);
}

#[test]
fn sentinel() {
    run(sentinel, Sentinel::start);
}

#[test]
fn cluster() {
    run(cluster, InCluster::start);
}

#[test]
fn quorum_of_3() {
    run(quorum_of_3, |dice| Quorum::of(3, dice));
}

#[test]
fn quorum_of_5() {
    run(quorum_of_5, |dice| Quorum::of(5, dice));
}
