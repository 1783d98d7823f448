//! Tests on a server whose answers are scripted.

mod gathered;
mod late_answers;
mod leadership;
mod scripted_server;
mod watches;
