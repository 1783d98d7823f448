//! Fencing tokens increase: a token requested after another was received is greater, unless both are
//! readers'. Repeated requests within a hold return the same token, also after a downgrade, and readers of
//! one process may share a hold; all others differ. This holds whatever servers lose. Only if a lock is
//! deleted after a machine slept, the numbers of before may be the greater ones: they follow the server's
//! clock, which a process knows from its own.

use std::collections::HashMap;

use super::{Call, Case, Rule, Verdict};
use crate::checker::call::Token;
use crate::fault::Kind;
use crate::journal::CallKind;
use crate::revocation::{Revocation, Whom};

pub fn check(case: &Case<'_>, verdict: &mut Verdict) {
    for (key, holds) in case.by_key() {
        let mut had: Vec<(&Call, Token)> = Vec::new();
        for hold in holds {
            let Some(first) = hold.tokens.first() else {
                continue;
            };
            if let Some(other) = hold
                .tokens
                .iter()
                .find(|token| token.number != first.number)
            {
                let text = format!(
                    "{} received {} and then {}",
                    hold.name(),
                    first.number,
                    other.number
                );
                verdict.broken(Rule::Tokens, text);
            }
            had.push((hold, *first));
        }
        verdict.tokens += had.len();
        let forces = case.revocations.iter().filter(|force| force.key == key);
        forces.for_each(|force| around(case, verdict, force, &had));
        grow(case, verdict, had.clone());
        differ(verdict, had);
    }
}

fn grow(case: &Case<'_>, verdict: &mut Verdict, mut had: Vec<(&Call, Token)>) {
    let mut by_request = had.clone();
    had.sort_by_key(|(_, token)| token.had);
    by_request.sort_by_key(|(_, token)| token.requested);
    let mut had = had.into_iter().peekable();
    // Of all holders, and of those that wrote.
    let mut greatest: [Option<(&Call, Token)>; 2] = [None; 2];
    for (call, token) in by_request {
        while let Some(before) = had.next_if(|(_, before)| before.had < token.requested) {
            let [all, writers] = &mut greatest;
            let is_greater = |known: &Option<(&Call, Token)>| {
                known.is_none_or(|(_, greatest)| greatest.number < before.1.number)
            };
            if is_greater(all) {
                *all = Some(before);
            }
            if !before.0.kind.reads() && is_greater(writers) {
                *writers = Some(before);
            }
        }
        let greatest = greatest[usize::from(call.kind.reads())];
        let is_broken = |(_, before): &(&Call, Token)| {
            before.number > token.number && !was_ahead(case, call.key, before, &token)
        };
        if let Some((other, before)) = greatest.filter(is_broken) {
            let text = format!(
                "{} received {}, and after that {} received only {}",
                other.name(),
                before.number,
                call.name(),
                token.number
            );
            verdict.broken(Rule::Tokens, text);
        }
    }
}

/// Returns `true` if the lock was deleted between the two, and a machine slept before.
fn was_ahead(case: &Case<'_>, key: u32, before: &Token, after: &Token) -> bool {
    let mut deletions = case.forgetting(key);
    let mut faults = case.faults();
    deletions.any(|it| it.until > before.had && it.from < after.requested)
        && faults.any(|it| it.kind == Kind::ClockStepped && it.from < before.had)
}

/// The number that a force has drawn lies between those of earlier holds and of later ones. If the lock was
/// taken from one that had it alone, every other hold that goes on is a later one; otherwise readers may have
/// joined an earlier one.
fn around(case: &Case<'_>, verdict: &mut Verdict, force: &Revocation, had: &[(&Call, Token)]) {
    let (Some(number), Some(until)) = (force.number, force.until) else {
        return;
    };
    let is_later = |call: &Call, token: &Token| match force.whom {
        Whom::Worker {
            worker,
            exclusive: true,
        } => {
            let goes_on = call.held().is_some_and(|(_, end)| end > until);
            let mut taking = case.taking(call);
            let is_the_holder = call.worker != worker && taking.all(|fault| fault.from > until);
            token.requested > until || goes_on && is_the_holder
        }
        _ => token.requested > until && !call.kind.reads(),
    };
    for (call, token) in had {
        let before = token.had < force.from && !is_later(call, token);
        let words = match () {
            () if before && token.number >= number => "before",
            () if is_later(call, token) && token.number <= number => "after",
            () => continue,
        };
        let text = format!(
            "a force drew {number} by {}, {words} {} received {}",
            case.when(until),
            call.name(),
            token.number
        );
        verdict.broken(Rule::Tokens, text);
    }
}

fn differ(verdict: &mut Verdict, had: Vec<(&Call, Token)>) {
    let mut known: HashMap<u64, &Call> = HashMap::new();
    for (call, token) in had {
        let other = known.insert(token.number, call);
        let keeps_its_own = |other: &Call| {
            call.kind == CallKind::Downgraded
                && (call.worker, call.number) == (other.worker, other.number)
        };
        let may_share =
            |other: &Call| call.worker == other.worker && call.kind.reads() && other.kind.reads();
        let text = match other {
            Some(other) if !keeps_its_own(other) && !may_share(other) => format!(
                "{} and {} both received {}",
                other.name(),
                call.name(),
                token.number
            ),
            None if call.kind == CallKind::Downgraded => {
                format!("{} received a new number, {}", call.name(), token.number)
            }
            _ => continue,
        };
        verdict.broken(Rule::Tokens, text);
    }
}
