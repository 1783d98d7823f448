//! Tests the server queue on Redis: the scripts, arrival order, lost messages, outages, and dead or canceled
//! waiters.

mod arrival_order;
mod cancellation;
mod dead_waiters;
mod ends_of_leases;
mod fixture;
mod foreign_clients;
mod foreign_data;
mod interleavings;
mod local_handoff;
mod lost_messages;
mod lua;
mod outage;
mod plain_clients;
mod refusals;
mod renewals;
mod script_trace;
mod scripts;
mod stopped_waiters;
mod subscription;
