//! Requirements for every engine and topology: each case is written once, and runs on all of them.
//!
//! `LOCK_CASES=queue::` runs only the cases whose names contain that, and `LOCK_CASE_TIMES=1` prints how long
//! each case took.

mod attribute;
mod bad_input;
mod blocking;
mod busy;
mod cancellation;
mod connecting;
mod crash;
mod ends_of_leases;
mod events;
mod exit_paths;
mod faults;
mod fencing;
mod fixture;
mod force;
mod inputs;
mod inspect;
mod keys;
mod lazy;
mod lease;
mod lease_loss;
pub mod log;
mod loss;
mod lost_replies;
mod min_hold;
mod nesting;
mod options;
mod outage;
mod ping;
mod process_end;
mod queue;
mod readers;
mod registry;
mod reports;
mod revoke;
mod semaphore;
mod set_aside;
mod several_keys;
mod shutdown;
mod starting;
mod topology;
mod waiting;
mod wanted;

use topology::Topology;

#[test]
fn memory() {
    registry::run(Topology::memory());
}

#[test]
fn memory_in_virtual_time() {
    registry::run_in_virtual_time(Topology::memory_in_virtual_time);
}

#[test]
fn slow_memory_in_virtual_time() {
    registry::run_in_virtual_time(Topology::slow_memory_in_virtual_time);
}

#[test]
fn standalone() {
    registry::run(Topology::standalone());
}

#[test]
fn standalone_on_one_thread() {
    registry::run_on_one_thread(Topology::standalone());
}

#[test]
fn sentinel() {
    registry::run(Topology::sentinel());
}

#[test]
fn cluster() {
    registry::run(Topology::cluster());
}

#[test]
fn postgres() {
    registry::run(Topology::postgres());
}

#[test]
fn postgres_on_one_thread() {
    registry::run_on_one_thread(Topology::postgres());
}

#[test]
fn postgres_behind_pooler() {
    registry::run(Topology::postgres_behind_pooler());
}

#[test]
fn quorum_of_3() {
    registry::run(Topology::quorum_of_3());
}

#[test]
fn quorum_of_5() {
    registry::run(Topology::quorum_of_5());
}

#[test]
fn etcd() {
    registry::run(Topology::etcd());
}

#[test]
fn zookeeper() {
    registry::run(Topology::zookeeper(1));
}

#[test]
fn zookeeper_ensemble() {
    if std::env::var_os("LOCK_ENSEMBLES").is_some() {
        registry::run(Topology::zookeeper(3));
    }
}
