//! Tests locks on a quorum of independent servers, some of which are dead, slow or have lost their data.

mod contention;
mod dead;
mod forgetful;
mod kinds;
mod late;
mod latency;
mod members;
mod reach;
mod replicas;
