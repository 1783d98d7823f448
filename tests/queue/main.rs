//! Tests the server queue on Redis: the scripts, arrival order, lost messages, outages, and dead or canceled
//! waiters.

mod cancels;
mod crew;
mod dead;
mod ear;
mod foreign;
mod interleavings;
mod lua;
mod order;
mod outage;
mod pushes;
mod renewals;
mod rows;
mod scripts;
mod table;
mod turns;
