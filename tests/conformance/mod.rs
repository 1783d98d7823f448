//! Requirements for every engine and topology: each case is written once, and is played wherever it can
//! differ, or on all topologies with `LOCK_FULL=1`.
//!
//! `LOCK_CASES=queue::` plays only the cases whose names contain that, and `LOCK_CASE_TIMES=1` prints how
//! long each case took.

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
mod play;
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
    play::play(Topology::memory());
}

#[test]
fn memory_in_virtual_time() {
    play::play_in_virtual_time(Topology::memory_in_virtual_time);
}

#[test]
fn slow_memory_in_virtual_time() {
    play::play_in_virtual_time(Topology::slow_memory_in_virtual_time);
}

#[test]
fn store() {
    play::play(Topology::store());
}

#[test]
fn mariadb() {
    play::play(Topology::mariadb());
}

#[test]
fn sqlite() {
    play::play(Topology::sqlite());
}

#[test]
fn standalone() {
    play::play(Topology::standalone());
}

#[test]
fn standalone_on_one_thread() {
    play::play_on_one_thread(Topology::standalone());
}

#[test]
fn sentinel() {
    play::play(Topology::sentinel());
}

#[test]
fn cluster() {
    play::play(Topology::cluster());
}

#[test]
fn postgres() {
    play::play(Topology::postgres());
}

#[test]
fn postgres_on_one_thread() {
    play::play_on_one_thread(Topology::postgres());
}

#[test]
fn postgres_behind_pooler() {
    play::play(Topology::postgres_behind_pooler());
}

#[test]
fn quorum_of_3() {
    play::play(Topology::quorum_of_3());
}

#[test]
fn quorum_of_5() {
    play::play(Topology::quorum_of_5());
}

#[test]
fn etcd() {
    play::play(Topology::etcd());
}

#[test]
fn zookeeper() {
    play::play(Topology::zookeeper(1));
}

#[test]
fn zookeeper_ensemble() {
    play::play(Topology::zookeeper(3));
}
