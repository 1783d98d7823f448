//! The turns of the processes that wait for one lock.
//!
//! A process has one entry in the server queue for each limit, on behalf of all its waiters with that limit.
//! When the entry is granted the lock, the process has a turn: it may pass the lock on by local handoff up to
//! 64 times or for 10 ms, and lets readers join for as long; then it joins the queue at its end.
//!
//! Exclusive holds of a process are one turn until another process, or another limit, has had one. Turns that
//! share the lock go on beside each other, so their times distinguish them.

use super::Call;
use crate::journal::CallKind;

/// The longest time from the first hold of a turn that shares the lock to the beginning of its last hold: the
/// time for local handoff, and for the tasks that receive it to run.
pub const BATCH: u64 = 100_000_000;

/// One turn: when its first hold began, and its last one.
pub struct Turn {
    pub worker: u32,
    pub limit: usize,
    pub from: u64,
    pub to: u64,
}

impl Turn {
    /// Returns `true` if the turn belongs to the queue entry of the call's process and limit.
    pub fn is_of(&self, call: &Call) -> bool {
        (self.worker, self.limit) == (call.worker, call.kind.limit())
    }
}

/// Returns the turns of holds that are in the order in which they began.
pub fn turns(holds: &[&Call]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for hold in holds {
        let is_admitted = hold.kind != CallKind::Downgraded && !hold.kind.is_of_several();
        let Some(began) = hold.began().filter(|_| is_admitted) else {
            continue;
        };
        let limit = hold.kind.limit();
        let last = turns.iter().rposition(|turn| turn.is_of(hold));
        let goes_on = |at: &usize| match limit {
            1 => at + 1 == turns.len(),
            _ => began.at <= turns[*at].from + BATCH,
        };
        match last.filter(goes_on) {
            Some(at) => turns[at].to = began.at,
            None => turns.push(Turn {
                worker: hold.worker,
                limit,
                from: began.at,
                to: began.at,
            }),
        }
    }
    turns
}
