//! Tests locks on PostgreSQL: killed, frozen and promoted servers, broken networks, poolers, permissions,
//! invalid input, and transactions that the lock itself protects.

mod dead_waiters;
mod failover;
mod fencing;
mod fixture;
mod full_disk;
mod hosts;
mod isolation;
mod keys;
mod lazy;
mod listener;
mod lost_reply;
mod outage;
mod pauses;
mod plans;
mod pooler;
mod rounds;
mod schema;
mod server_checks;
mod transaction_proof;
mod waiting;
