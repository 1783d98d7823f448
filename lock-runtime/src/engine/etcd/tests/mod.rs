//! Tests on a server whose replies are scripted, and of operations on real servers.

mod asks;
mod batches;
mod checks;
mod leases;
mod logins;
mod names;
mod process;
mod reports;
mod rights;
mod scripted_server;
mod take;
mod watches;
