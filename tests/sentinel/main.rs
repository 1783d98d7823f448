//! A master found through Sentinels, and followed from one failover to the next.

mod access;
mod demoted;
mod failover;
mod replicas;
mod sentinels;
