//! Locks in ZooKeeper: sessions, servers that fail, Curator in the same line, and bad input.

mod bad_input;
mod curator;
mod kinds;
mod outage;
mod sessions;
