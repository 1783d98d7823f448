//! What the tests on real servers stand on.

pub mod certificates;
pub mod database;
pub mod proxy;
pub mod server;
pub mod time;
pub mod worker;
