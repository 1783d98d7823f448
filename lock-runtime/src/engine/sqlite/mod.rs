//! Locks in a file, which the processes of one machine share: a [`Store`](crate::store::Store) on SQLite, of
//! which the engine in [`store`](crate::engine::store) makes locks.
//!
//! The processes of a file live and die with one machine. So a commit need not reach the disk: a power loss
//! that forgets some ends their holders, too.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod database;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod file_system;
pub(crate) mod open;
pub(crate) mod statements;
#[cfg(all(test, feature = "testing"))]
mod tests;
pub(crate) mod worker;
