//! Tests on a server whose replies are scripted.

mod batches;
mod checks;
mod leases;
mod operations;
mod scripted_server;
mod watches;
