//! Tests on a server whose answers are scripted.

mod gathered;
mod leadership;
mod scripted_server;
mod watches;
