//! Tests on a server whose answers are scripted.

mod checks;
mod gathered;
mod leases;
mod scripted_server;
mod watches;
