//! Waiters are served in order of arrival, where the schedule promises that and no fault interferes.
//!
//! Within a process, callers wait in one local queue: a later caller acquires the lock later.
//!
//! Within the server queue, waiters enter in batches: neighbors that fit beside each other enter together,
//! and no later one enters before them. So before a waiter acquires the lock, every other process has at most
//! one [turn](turns) with each limit, plus one before each further turn that the waiter's own process needs
//! for earlier callers. A claim joins the queue within [`SLACK`]: it waits 10 ms first if a caller of its own
//! process holds the lock.
//!
//! The rule does not judge a waiter while a thread of its process is blocked, while a call of its process
//! that waits for the same lock is not polled (which may be granted the lock first and let it pass on), or
//! while a lease runs out: the waiters poll at its end, and one that is late is passed.

use super::turns::{BATCH, Turn, turns};
use super::{Call, Case, Rule, Spans, Verdict};
use crate::journal::Outcome;

const MS: u64 = 1_000_000;
const SLACK: u64 = 200 * MS;
/// How long before a call all must have been free of faults.
const QUIET: u64 = 3_000 * MS;
/// A process that does not run for at most this long does not count as a fault.
const HICCUP: u64 = 40 * MS;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    if !case.history.promises.order {
        return;
    }
    let faults = case.history.faults.iter();
    let faults = faults.map(|fault| (fault.from, fault.until + 1));
    let stalls = case.stalls.values().flat_map(Spans::iter);
    let stalls = stalls.filter(|(from, to)| to - from > HICCUP);
    let trouble = Spans::of(faults.chain(stalls));
    for (key, holds) in case.by_key() {
        let holds: Vec<&Call> = holds.collect();
        let lapsed = Spans::of(holds.iter().filter_map(|hold| {
            let is_lost = matches!(
                hold.outcome(),
                Some(Outcome::Lost | Outcome::Revoked | Outcome::ShutDown)
            ) || hold.proof().is_none();
            let end = hold.over().filter(|_| is_lost)?;
            Some((hold.called, end))
        }));
        let calls: Vec<&Call> = case.calls.iter().filter(|call| call.key == key).collect();
        let is_calm = |call: &Call, until: u64| {
            let from = call.called.saturating_sub(QUIET);
            let mut neighbors = calls.iter().filter(|other| other.worker == call.worker);
            !trouble.touches(from, until)
                && !lapsed.touches(call.called, until)
                && case.blocked(call.worker, from, until) == 0
                && neighbors.all(|other| !other.aside.touches(call.called, until))
        };
        let turns = turns(&holds);
        let mut judged = Vec::new();
        for hold in holds {
            let began = hold.began().map_or(0, |look| look.at);
            let waits = hold.wait > 0 && hold.kind.queues();
            if waits && is_calm(hold, began) {
                verdict.in_line += 1;
                among_all(case, verdict, hold, began, &turns);
                judged.push(hold);
            }
        }
        let gave_up = |call: &&&Call| {
            call.outcome() == Some(&Outcome::Busy) && call.wait > 0 && call.kind.queues()
        };
        for call in calls.iter().filter(gave_up) {
            let until = call.over().unwrap_or(call.called);
            if is_calm(call, until) {
                among_all(case, verdict, call, until, &turns);
            }
        }
        let queue = |hold: &Call| (hold.worker, hold.kind.limit());
        judged.sort_by_key(|hold| queue(hold));
        for of_one in judged.chunk_by(|one, next| queue(one) == queue(next)) {
            within(case, verdict, of_one);
        }
    }
}

/// Checks the turns of other workers until `hold` acquired the lock or gave up.
fn among_all(case: &Case<'_>, verdict: &mut Verdict, hold: &Call, until: u64, turns: &[Turn]) {
    let first = turns.partition_point(|turn| turn.from <= hold.called);
    let mut since = hold.called + SLACK;
    let mut had: Vec<(u32, usize)> = Vec::new();
    for turn in turns[first..].iter().take_while(|turn| turn.from < until) {
        if turn.is_of(hold) {
            since = turn.to + SLACK;
            had.clear();
        } else if turn.from > since && !enters_with(turn, hold, until) {
            if had.contains(&(turn.worker, turn.limit)) {
                let text = format!(
                    "{} called at {} and waited until {}; meanwhile worker {} held it in two turns, the \
                     second at {}",
                    hold.name(),
                    case.when(hold.called),
                    case.when(until),
                    turn.worker,
                    case.when(turn.from)
                );
                return verdict.broken(Rule::Order, text);
            }
            had.push((turn.worker, turn.limit));
        }
    }
}

/// Returns `true` if a turn that began shortly before `until` may be of the same batch: its holders are
/// notified at the same time, and run in any order.
fn enters_with(turn: &Turn, hold: &Call, until: u64) -> bool {
    let both_share = turn.limit.min(hold.kind.limit()) > 1;
    both_share && turn.from + BATCH >= until
}

/// Returns `true` if both holds may be of the same batch, and their bodies began in the order in which they
/// ran.
fn begins_with(one: &Call, other: &Call) -> bool {
    let [one_began, other_began] = [one, other].map(|hold| hold.began().map_or(0, |look| look.at));
    one.kind.limit().min(other.kind.limit()) > 1 && one_began + BATCH >= other_began
}

/// Checks the holds of one worker with one limit, in the order in which they began.
fn within(case: &Case<'_>, verdict: &mut Verdict, holds: &[&Call]) {
    // Of the holds that have begun so far, the one that was requested last.
    let mut last: Option<&Call> = None;
    for hold in holds {
        let overtaken = last.filter(|last| hold.called + SLACK < last.called);
        if let Some(last) = overtaken.filter(|last| !begins_with(last, hold)) {
            let text = format!(
                "{} called at {}, but {}, which called at {}, was served first",
                hold.name(),
                case.when(hold.called),
                last.name(),
                case.when(last.called)
            );
            verdict.broken(Rule::Order, text);
        }
        if last.is_none_or(|last| last.called < hold.called) {
            last = Some(hold);
        }
    }
}
