//! Locks on a quorum of independent servers, some of which are dead, slow, or have forgotten.

mod contention;
mod dead;
mod forgetful;
mod kinds;
mod late;
mod latency;
mod members;
mod reach;
mod replicas;
