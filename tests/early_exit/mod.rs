//! A lost lock is noticed in time, and a call that is dropped at any point leaves nothing behind.

mod body;
mod dropped_calls;
mod fault;
mod lost_leases;
mod runtime;
