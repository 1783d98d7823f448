//! Locks in a table of MySQL or MariaDB: a [`Store`](crate::store::Store) of records.

pub(crate) mod address;
mod bells;
mod check;
mod conn;
pub(crate) mod open;
mod proofs;
pub(crate) mod sql;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod wire;
