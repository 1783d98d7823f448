//! The complete record of a schedule.

use crate::fault::Fault;
use crate::journal::Event;
use crate::resource::Write;
use crate::witness::Sample;

/// The record that the checker checks.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The events of all workers, in no order.
    pub events: Vec<Event>,
    pub faults: Vec<Fault>,
    /// The writes that were requested from the resource.
    pub writes: Vec<Write>,
    /// The lock states that the server reported meanwhile, where there is a single server.
    pub samples: Vec<Sample>,
    pub promises: Promises,
    /// Everything that was left behind on servers and in processes at the end.
    pub left: Vec<String>,
}

/// The promises that hold in this schedule in addition to the general ones.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Waiters are served in order of arrival.
    pub order: bool,
    /// The resource compares fencing tokens.
    pub fenced: bool,
    /// The longest time, in nanoseconds, for which a lock that a call waits for may have no holder, if the
    /// schedule promises less than the general bound.
    pub gap: Option<u64>,
    /// The longest mean of these times, if the schedule promises one.
    pub mean_gap: Option<u64>,
}
