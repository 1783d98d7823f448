//! Tests locks on a quorum of independent servers, some of which are dead, slow or have lost their data.

mod connecting;
mod contention;
mod dead_waiters;
mod late_replies;
mod latency;
mod lost_data;
mod members;
mod mixed_members;
mod readers;
mod replicas;
