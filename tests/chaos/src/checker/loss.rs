//! A loss has a cause, and the holder that lost a lock notices it in time.
//!
//! - A lease is lost only if a fault occurred, or if it was to end by itself; and not if there was a long
//!   enough span without faults before its end. Killed connections alone are no cause: they can be replaced
//!   at once. It is lost before its end only if a server may have lost the lock, or one of another key of the
//!   call.
//! - A lock is given up only if an operator has asked for it. One that was taken by force is lost with the next
//!   renewal.
//! - A lock that a call had is not lost before its body begins unless a fault occurred, even if the call
//!   waits for the locks of other keys meanwhile.
//! - A lease that is not renewed ends when its ttl has passed, and nothing is proven after that.
//! - When another call holds the lock and excludes it, the earlier holder has ended or ends shortly: its body
//!   is canceled, and its release is confirmed or given up within the command timeout. A holder whose lock a
//!   server has lost counts on its lease for at most one ttl. A body that is to continue after a loss, a
//!   guard held by hand and a blocked thread cannot be stopped.

use super::wait_bounds::COMMAND_TIMEOUT;
use super::{Call, Case, Rule, Spans, Verdict, millis};
use crate::fault::{Fault, Kind};
use crate::journal::{CallKind, Outcome};

/// How long before the start of a hold a fault may still cause its loss.
const BEFORE: u64 = 1_000_000_000;
/// A body reads its guard more often than this, unless it is kept from running.
const UNSEEN: u64 = 60_000_000;
/// A holder that a server has forgotten may notice that long before its lease ends, and no other.
const EARLY: u64 = 100_000_000;
/// A lease that ends within this time is due to be renewed …
const DUE: u64 = 2_000_000_000;
/// … and is renewed if no fault occurs for this long.
const ENOUGH: u64 = 900_000_000;

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    let trouble = trouble(case);
    for call in &case.calls {
        if call.outcome() == Some(&Outcome::Revoked) {
            revoked(case, verdict, call);
        }
        if call.began().is_none() && call.outcome() == Some(&Outcome::Lost) {
            lost_before_its_body(case, verdict, call);
        }
    }
    for (_, holds) in case.by_key() {
        let holds: Vec<&Call> = holds.collect();
        for (number, hold) in holds.iter().enumerate() {
            end_in_time(case, verdict, hold, &holds[number + 1..]);
            if hold.outcome() == Some(&Outcome::Lost) {
                lost(case, verdict, hold, &trouble);
            }
            if hold.kind == CallKind::Unrenewed {
                unrenewed(case, verdict, hold);
            }
        }
    }
}

/// Returns the spans of all faults, and those in which a process did not run for longer than a renewal may be
/// delayed.
fn trouble(case: &Case<'_>) -> Spans {
    let faults = case.faults().map(|fault| (fault.from, fault.until + 1));
    let stalls = case.stalls.values().flat_map(Spans::iter);
    Spans::of(faults.chain(stalls.filter(is_long)))
}

fn is_long((from, to): &(u64, u64)) -> bool {
    to - from > 50_000_000
}

fn lost(case: &Case<'_>, verdict: &mut Verdict, hold: &Call, trouble: &Spans) {
    let (Some(began), Some(end)) = (hold.began(), &hold.ended) else {
        return;
    };
    verdict.lost += 1;
    if let Some(proof) = hold.proof().filter(|_| hold.is_cancelled()) {
        let over = (proof.at + proof.left).min(end.at);
        let stalled =
            |from, to| case.stalled(hold.worker, from, to) + case.blocked(hold.worker, from, to);
        // If the process ran for long since the last reading, the lease may have been renewed meanwhile.
        let unseen = (over - proof.at).saturating_sub(stalled(proof.at, over));
        if unseen <= UNSEEN || over == end.at {
            let ran = (end.at - over).saturating_sub(stalled(over, end.at));
            verdict.losses.push(ran);
        }
    }
    let by_itself = matches!(hold.kind, CallKind::Unrenewed | CallKind::MaxHold);
    // A call on a blocked thread may begin with a lock that was granted long before.
    let before = hold.called.min(began.at.saturating_sub(BEFORE));
    // A renewal is delayed by at most a tenth of the lease, which of a grant is shorter than the ttl.
    let lease = hold.looks.iter().map(|look| look.left).max();
    let busy = case.noise.covered(before, end.at) > lease.unwrap_or(hold.ttl) / 10;
    // It counts from the call, whose only request took longer than what was left: a server had no time.
    let took = began.at - hold.called;
    let is_late = |left| left < took && took + left <= hold.ttl;
    let busy = busy || lease.is_some_and(is_late);
    let calm = !trouble.touches(before, end.at) || could_be_renewed(case, hold, end.at);
    if !by_itself && !busy && calm && !was_taken(case, hold, end.at) {
        let text = format!(
            "{} lost the lock by {}, though no fault had occurred or all had ended in time",
            hold.name(),
            case.when(end.at)
        );
        verdict.broken(Rule::Loss, text);
    }
    let early = hold
        .proof()
        .map_or(0, |proof| (proof.at + proof.left).saturating_sub(end.at));
    if !by_itself
        && early > EARLY
        && !was_taken(case, hold, end.at)
        && !case.slept(hold.worker, end.at)
    {
        let text = format!(
            "{} lost the lock by {}, {} before the end of its lease, though no server had lost the lock",
            hold.name(),
            case.when(end.at),
            millis(early)
        );
        verdict.broken(Rule::Loss, text);
    }
}

/// Returns `true` if a server may have lost one of the call's locks before `end`, which ends the call.
fn was_taken(case: &Case<'_>, call: &Call, end: u64) -> bool {
    let takes = |fault: &Fault| fault.takes_from(call.worker) && fault.from < end;
    let mut keys = call.keys.iter();
    keys.any(|key| case.forgetting(*key).any(takes))
}

fn revoked(case: &Case<'_>, verdict: &mut Verdict, call: &Call) {
    let end = call.over().unwrap_or(case.end);
    verdict.lost += 1;
    // A call of several keys is one for each of them.
    if !case.was_asked(call, end) {
        let text = format!(
            "{} lost the lock by {}, as somebody had asked for it, which nobody had",
            call.name(),
            case.when(end)
        );
        verdict.broken(Rule::Loss, text);
    }
}

fn lost_before_its_body(case: &Case<'_>, verdict: &mut Verdict, call: &Call) {
    let end = call.over().unwrap_or(case.end);
    let by_itself = matches!(call.kind, CallKind::Unrenewed | CallKind::MaxHold);
    // It is unknown when the lease ended: within some lease, the machine must have been busy for long.
    let long = |from| case.noise.covered(from, from + call.ttl) > call.ttl / 4;
    let busy = case
        .noise
        .within(call.called, end)
        .any(|(from, _)| long(from));
    let mut faults = case.faults();
    let calm = faults.all(|fault| fault.until < call.called || end < fault.from);
    if !by_itself && !busy && calm && !was_taken(case, call, end) {
        let text = format!(
            "{} lost the lock by {}, before its body began, though no fault had occurred",
            call.name(),
            case.when(end)
        );
        verdict.broken(Rule::Loss, text);
    }
}

/// Returns `true` if there was time to renew the lease without a fault while it was due: within its last two
/// seconds.
fn could_be_renewed(case: &Case<'_>, hold: &Call, end: u64) -> bool {
    let (Some(began), Some(proof)) = (hold.began(), hold.proof()) else {
        return false;
    };
    let over = proof.at + proof.left;
    let due = (hold.ttl * 2 / 3).min(DUE);
    let from = began.at.max(over.saturating_sub(due));
    let to = over.min(end);
    let was_forgotten = case.taking(hold).any(|fault| fault.from < end);
    if was_forgotten || case.slept(hold.worker, end) || over > end || to <= from {
        return false;
    }
    let faults = case.faults();
    let faults = faults.filter(|fault| fault.kind != Kind::ClientsKilled);
    let faults = faults.map(|fault| (fault.from, fault.until + 1));
    let stalls = case.stalls.values().chain(case.blocked.values());
    let stalls = stalls.flat_map(Spans::iter).filter(is_long);
    let trouble = Spans::of(faults.chain(stalls));
    let well = Spans::of([(from, to)]).minus(&trouble);
    let longest = well.iter().map(|(from, to)| to - from).max();
    longest.is_some_and(|longest| longest > ENOUGH)
}

fn unrenewed(case: &Case<'_>, verdict: &mut Verdict, hold: &Call) {
    let (Some(began), Some(proof)) = (hold.began(), hold.proof()) else {
        return;
    };
    if proof.at + proof.left > began.at + hold.ttl {
        let text = format!(
            "{} began at {} and counted on its lease until {}, though it was not renewed",
            hold.name(),
            case.when(began.at),
            case.when(proof.at + proof.left)
        );
        verdict.broken(Rule::Loss, text);
    }
}

fn end_in_time(case: &Case<'_>, verdict: &mut Verdict, hold: &Call, later: &[&Call]) {
    let stoppable = hold.is_cancelled() && hold.kind != CallKind::Blocks;
    let (Some(proof), Some(end), true) = (hold.proof(), hold.over(), stoppable) else {
        return;
    };
    let excludes = |other: &Call| hold.kind.limit().min(other.kind.limit()) == 1;
    let provably = |other: &Call| other.held().is_some_and(|(from, _)| from > proof.at);
    let mut later = later.iter();
    let Some(next) = later.find(|other| excludes(other) && provably(other)) else {
        return;
    };
    let Some((from, _)) = next.held().filter(|(from, _)| *from < end) else {
        return;
    };
    let taking = case.taking(hold);
    // It may have resumed a lock that was kept during the fault.
    let had_it =
        |fault: &Fault| proof.at < fault.until || case.held_by(hold.worker, hold.key, fault);
    let taking = taking.filter(|fault| had_it(fault) && fault.from < from);
    let unaware = taking.map(|fault| case.unaware(fault, hold, end));
    let forgotten = unaware.max().unwrap_or(0);
    let allowed = COMMAND_TIMEOUT + case.noise(from, end) + forgotten;
    let ran = (end - from)
        .saturating_sub(case.stalled(hold.worker, from, end))
        .saturating_sub(case.blocked(hold.worker, from, end));
    if ran > allowed {
        let text = format!(
            "{} continued for {}, to {}, while {} already held the lock",
            hold.name(),
            millis(ran),
            case.when(end),
            next.name()
        );
        verdict.broken(Rule::Loss, text);
    }
}
