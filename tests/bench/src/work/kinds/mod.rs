//! Locks that are shared, and calls that need several: readers, semaphores, transfers, nested calls.

mod alone;
mod joined;
pub mod mix;
mod nested;
mod permits;
mod readers;
mod renewal;
pub mod transfers;

use crate::Bench;

pub fn kinds(bench: &mut Bench) {
    alone::alone(bench);
    readers::readers(bench);
    joined::joined(bench);
    mix::mix(bench);
    permits::permits(bench);
    transfers::transfers(bench);
    nested::nested(bench);
    renewal::renewal(bench);
}
