//! Requirements for every engine and topology: each case is written once, and runs on all of them.
//!
//! `LOCK_CASES=queue::` runs only the cases whose names contain that, and `LOCK_CASE_TIMES=1` prints how long
//! each case took.

mod attribute;
mod busy;
mod cancellation;
mod connecting;
mod crash;
mod ends_of_leases;
mod exit_paths;
mod fencing;
mod fixture;
mod keys;
mod lease;
pub mod log;
mod loss;
mod lost_replies;
mod min_hold;
mod nesting;
mod network;
mod options;
mod outage;
mod process_end;
mod queue;
mod readers;
mod registry;
mod semaphore;
mod set_aside;
mod several_keys;
mod shutdown;
mod topology;
mod waiting;

use topology::{
    BehindPooler, InCluster, InEtcd, InPostgres, InZooKeeper, Memory, Quorum, Sentinel, Standalone,
};

#[test]
fn memory() {
    registry::run(Memory::start());
}

#[test]
fn standalone() {
    registry::run(Standalone::start());
}

#[test]
fn standalone_on_one_thread() {
    registry::run_on_one_thread(Standalone::start());
}

#[test]
fn sentinel() {
    registry::run(Sentinel::start());
}

#[test]
fn cluster() {
    registry::run(InCluster::start());
}

#[test]
fn postgres() {
    registry::run(InPostgres::start());
}

#[test]
fn postgres_on_one_thread() {
    registry::run_on_one_thread(InPostgres::start());
}

#[test]
fn postgres_behind_pooler() {
    registry::run(BehindPooler::start());
}

#[test]
fn quorum_of_3() {
    registry::run(Quorum::of(3));
}

#[test]
fn quorum_of_5() {
    registry::run(Quorum::of(5));
}

#[test]
fn etcd() {
    registry::run(InEtcd::start());
}

#[test]
fn zookeeper() {
    registry::run(InZooKeeper::of(1));
}

#[test]
fn zookeeper_ensemble() {
    if std::env::var_os("LOCK_ENSEMBLES").is_some() {
        registry::run(InZooKeeper::of(3));
    }
}
