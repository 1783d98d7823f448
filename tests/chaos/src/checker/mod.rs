//! Checks a recorded history against the promises of the library.
//!
//! Each promise is a rule in a file of its own. All rules use one clock. A worker takes the timestamp before
//! it reads the guard, so the guard's answer was valid at that timestamp.

mod affected;
mod available;
mod belief;
mod call;
mod case;
mod deadline;
mod exclusion;
mod interval;
mod leaks;
mod limits;
mod liveness;
mod loss;
mod order;
mod panics;
mod progress;
mod room;
mod shutdown;
mod stopped;
mod tenure;
mod tokens;
mod turns;
mod wait_bounds;
mod writes;

use std::fmt;

use crate::history::History;
pub use call::Call;
pub use case::Case;
pub use interval::Spans;

/// A promise of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// No call provably holds a lock while another one holds it exclusively.
    Exclusion,
    /// No more calls provably share a lock at the same time than the limit of one of them.
    Limits,
    /// A body does not continue past the next await once its lease has run out.
    Deadline,
    /// A loss has a cause and is noticed in time.
    Loss,
    /// Fencing tokens increase, except among readers.
    Tokens,
    /// A resource that compares fencing tokens accepts no stale write.
    Writes,
    /// Waiters are served in order of arrival.
    Order,
    /// No call waits longer than allowed.
    Waits,
    /// No lock stays without a holder, or with room for another one, while a call waits for it.
    Stall,
    /// No key, queue entry, thread, task or connection is left behind.
    Leaks,
    /// All workers and calls end, and enough happens.
    Progress,
    /// No holder counts on a lease for longer than the server keeps it.
    Belief,
    /// A reachable server is not reported as unavailable.
    Available,
    /// No panic occurs that was not intended.
    Panics,
    /// `shutdown` returns in time, and ends all calls and holds.
    Shutdown,
    /// A holder that is said to have stopped runs no more.
    Stopped,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// The result of checking one schedule. All durations are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub calls: usize,
    /// The number of bodies that began.
    pub holds: usize,
    /// Holds whose call waited while another worker held the lock.
    pub hand_offs: usize,
    /// Overlapping holds that a server's loss of the lock excuses.
    pub double_holds: usize,
    pub longest_double_hold: u64,
    /// Steps at which the lease had run out, and which no await could prevent.
    pub late_steps: usize,
    /// Losses that were noticed; and, for each that canceled a body and whose lease has a known end, how long
    /// the process ran from that end until the loss was noticed.
    pub lost: usize,
    pub losses: Vec<u64>,
    pub tokens: usize,
    pub writes: usize,
    /// Writes that were refused because their token was too old.
    pub refused: usize,
    /// Writes that were accepted after a write with a later token.
    pub stale: usize,
    /// Writes that overwrote another update.
    pub lost_updates: usize,
    /// Server samples that were compared with the lease its holder counted on.
    pub believed: usize,
    /// Calls whose position in the queue was checked.
    pub in_line: usize,
    /// The longest time for which a lock had room for the calls that waited although servers were available.
    pub longest_gap: u64,
    /// The number of process faults that hit a holder, and the number that hit a waiter.
    pub hit: (usize, usize),
    /// The longest time by which a wait exceeded its bound.
    pub longest_over: u64,
}

impl Verdict {
    fn broken(&mut self, rule: Rule, text: String) {
        self.violations.push(Violation { rule, text });
    }

    #[cfg(test)]
    fn breaks(&self, rule: Rule) -> bool {
        self.violations.iter().any(|found| found.rule == rule)
    }
}

pub fn check(history: &History) -> Verdict {
    let case = Case::new(history);
    let mut verdict = Verdict {
        calls: case.calls.len(),
        holds: case.holds().count(),
        hand_offs: case.hand_offs(),
        ..Verdict::default()
    };
    let rules = [
        exclusion::check,
        limits::check,
        affected::check,
        deadline::check,
        loss::check,
        tokens::check,
        writes::check,
        order::check,
        wait_bounds::check,
        liveness::check,
        leaks::check,
        tenure::check,
        progress::check,
        belief::check,
        available::check,
        panics::check,
        shutdown::check,
        stopped::check,
    ];
    for rule in rules {
        rule(&case, &mut verdict);
    }
    verdict
}

fn millis(nanos: u64) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

#[cfg(test)]
pub mod tests;
