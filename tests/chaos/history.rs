//! All that is known of a schedule when it is over.

use crate::book::Write;
use crate::event::Event;
use crate::fault::Fault;
use crate::witness::Sample;

/// What there is to check.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Of all workers, in no order.
    pub events: Vec<Event>,
    pub faults: Vec<Fault>,
    /// What the resource was asked to write.
    pub writes: Vec<Write>,
    /// What the server said of the locks meanwhile, where one can be asked.
    pub samples: Vec<Sample>,
    pub promises: Promises,
    /// What was found to be left behind on servers and in processes, when all was over.
    pub left: Vec<String>,
}

/// What is promised where it took place, beside what always is.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Waiters are served in order of arrival.
    pub order: bool,
    /// The resource compares tokens.
    pub fenced: bool,
    /// For how many nanoseconds nobody has a lock that somebody waits for, at most, where less is promised
    /// than what may go wrong in general takes.
    pub gap: Option<u64>,
}
