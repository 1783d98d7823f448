//! Locks in ZooKeeper: sessions, servers that fail, Curator in the same line, users, odd names, and bad
//! input.

mod access;
mod curator;
mod deleted_claims;
mod keys;
mod kinds;
mod outage;
mod places;
mod real_curator;
mod requests;
mod sessions;
