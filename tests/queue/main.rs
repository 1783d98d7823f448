//! Waiting for a lock, in order and pushed: the scripts, the queue, and what goes wrong with both.

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
