//! Looks at what happened, and says what must not have.
//!
//! Each promise is a rule, in a file of its own. They share one clock: a look at a guard is stamped before
//! it is taken, so that what it found was so at the stamp.

mod available;
mod belief;
mod book;
mod call;
mod case;
mod deadline;
mod exclusion;
mod hit;
mod left;
mod loss;
mod order;
mod panics;
mod progress;
mod shutdown;
mod span;
mod stall;
mod tokens;
mod waits;

use std::fmt;

use crate::history::History;
pub use call::Call;
pub use case::Case;
pub use span::Spans;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Two never provably hold one lock.
    Exclusion,
    /// A body goes no further than the next await once its lease has run out.
    Deadline,
    /// A loss is noticed, in time, and has a cause.
    Loss,
    /// Fencing tokens grow.
    Tokens,
    /// A resource that compares them takes no stale write.
    Book,
    /// Waiters are served in order of arrival.
    Order,
    /// Nobody waits for longer than allowed.
    Waits,
    /// Nothing stays locked for nobody.
    Stall,
    /// Nothing is left behind.
    Left,
    /// Everybody comes to an end, and enough happens.
    Progress,
    /// Nobody believes in a lease for longer than the server keeps it.
    Belief,
    /// A server that can be reached is not said to be unavailable.
    Available,
    /// Nothing panics.
    Panics,
    /// `shutdown` comes back in time.
    Shutdown,
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

/// What came of a schedule. All durations are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub violations: Vec<Violation>,
    pub calls: usize,
    /// Bodies that began.
    pub holds: usize,
    /// Those that were waited for while another worker had the lock.
    pub hand_offs: usize,
    /// Two held one lock since a server had forgotten it.
    pub double_holds: usize,
    pub longest_double_hold: u64,
    /// Steps of a body at which its lease had run out, and which no await could stop.
    pub late_steps: usize,
    /// Losses that were noticed, and, for each by which a body was cancelled and of which the lease's end is
    /// known, for how long the process had run since then.
    pub lost: usize,
    pub losses: Vec<u64>,
    pub tokens: usize,
    pub writes: usize,
    /// Writes that were refused since their token was too old.
    pub refused: usize,
    /// Writes that were taken though a later one had been before.
    pub stale: usize,
    /// Writes that undid another.
    pub lost_updates: usize,
    /// Samples of a server's that were compared with what a holder believed.
    pub believed: usize,
    /// Callers whose place in line was looked at.
    pub in_line: usize,
    /// The longest time for which nobody held a lock that somebody waited for, though it could be had.
    pub longest_gap: u64,
    /// Of what befell processes, how much hit one that held a lock, and how much one that waited.
    pub hit: (usize, usize),
    /// By how much a wait was longer than allowed, at most.
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
        hit::check,
        deadline::check,
        loss::check,
        tokens::check,
        book::check,
        order::check,
        waits::check,
        stall::check,
        left::check,
        progress::check,
        belief::check,
        available::check,
        panics::check,
        shutdown::check,
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
