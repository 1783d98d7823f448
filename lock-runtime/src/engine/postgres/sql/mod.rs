//! The tables and functions of locks, as SQL.

pub(crate) mod schema;
