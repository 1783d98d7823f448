//! Getting a lock back from its holders.

use crate::engine::operations::Taken;
use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::asks::{Ask, Wanted};
use crate::lock::context::Context;
use crate::lock::inspect::{inspect, viewed};
use crate::lock_info::{ClaimInfo, LockInfo};
use crate::revocation::Revocation;
use crate::trace;
use crate::util::time::{deadline_in, elapsed_since, now};
use std::time::Duration;

/// How often the holders are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// After how many looks the ask is repeated: its message may have been lost, or have come before the hold.
const REPEAT: u32 = 10;

/// Whom to revoke a lock from, and how.
pub(crate) struct Demand {
    pub(crate) whom: Whom,
    pub(crate) by: String,
    pub(crate) reason: String,
    pub(crate) grace: Duration,
    pub(crate) force: bool,
}

pub(crate) enum Whom {
    /// The one that holds it.
    Sole,
    All,
    /// The one with that token.
    Token(Box<str>),
    /// The body that had it when this was seen.
    Holder(Box<ClaimInfo>),
}

pub(crate) async fn revoke(
    context: &Context,
    key: &str,
    demand: &Demand,
) -> Result<Revocation, LockError> {
    let begun = now();
    let found = inspect(context, key).await?;
    let meant = meant(&found, &demand.whom)?;
    if meant.is_empty() {
        return Ok(Revocation::NotHeld);
    }
    let (by, reason) = (&*demand.by, &*demand.reason);
    for holder in &meant {
        trace::revokes(key, by, reason, &holder.token, demand.force);
    }
    let mut left = meant;
    // Another client cannot be asked.
    let can_be_asked = left.iter().any(|it| wanted(it, demand).is_some());
    let deadline = deadline_in(demand.grace);
    let mut looks = 0;
    while can_be_asked && !left.is_empty() && (looks == 0 || now() < deadline) {
        if looks % REPEAT == 0 {
            let sent = send(context, key, &left, demand).await;
            // Whoever may not ask may still take the lock.
            if !demand.force {
                sent?;
            }
        }
        looks += 1;
        let next = deadline_in(LOOK).min(deadline);
        context.io.sleep_until(next).await;
        let found = match looks % REPEAT {
            // The process may have told that another body has the lock.
            0 => inspect(context, key).await?,
            _ => viewed(context, &context.name_of(key)).await?,
        };
        left = still_held(found, &left, &demand.whom);
    }
    if !left.is_empty() {
        left = still_held(inspect(context, key).await?, &left, &demand.whom);
    }
    if demand.force && !left.is_empty() {
        if let Some(taken) = take(context, key, &left).await? {
            return Ok(taken);
        }
        // Released by then, or no lock: a key of another type is left alone.
        left = still_held(inspect(context, key).await?, &left, &demand.whom);
    }
    Ok(match left.is_empty() {
        true => Revocation::Stopped {
            after: elapsed_since(begun),
        },
        false => Revocation::NotStopped { holders: left },
    })
}

/// Returns the holders that are to lose the lock.
fn meant(found: &LockInfo, whom: &Whom) -> Result<Vec<ClaimInfo>, LockError> {
    let holders = found.holders();
    match whom {
        Whom::All => Ok(holders.to_vec()),
        Whom::Holder(seen) => {
            let meant = holders.iter().filter(|it| it.token == seen.token);
            Ok(meant
                .filter(|it| is_the_same_body(it, whom))
                .cloned()
                .collect())
        }
        Whom::Token(token) => {
            let meant = holders.iter().filter(|it| it.token == *token);
            Ok(meant.cloned().collect())
        }
        Whom::Sole => {
            // A member of a quorum may have one that holds nothing, and is in the way.
            let mut owners = holders.iter().filter(|it| it.is_holder());
            match (owners.next(), owners.next()) {
                (Some(_), Some(_)) => Err(LockError::InvalidOption {
                    option: "token",
                    reason: "several share the lock; name one of them by its token, or say that all are meant",
                }),
                (Some(sole), None) => Ok(vec![sole.clone()]),
                (None, _) => Ok(holders.to_vec()),
            }
        }
    }
}

/// Returns what the holder's process is asked; `None` for another client.
fn wanted(holder: &ClaimInfo, demand: &Demand) -> Option<Wanted> {
    holder.process()?;
    Some(Wanted {
        token: Token::parse(&holder.token)?,
        held_for: match &demand.whom {
            Whom::Holder(seen) => seen.since_seen(),
            Whom::Sole | Whom::All | Whom::Token(_) => Duration::ZERO,
        },
        by: demand.by.as_str().into(),
        reason: demand.reason.as_str().into(),
    })
}

async fn send(
    context: &Context,
    key: &str,
    holders: &[ClaimInfo],
    demand: &Demand,
) -> Result<(), LockError> {
    for wanted in holders.iter().filter_map(|it| wanted(it, demand)) {
        let deadline = deadline_in(context.command_timeout);
        let ask = Ask::Revoke(wanted).to_string();
        let sent = context.engine.ask(&ask, deadline).await;
        sent.map_err(|error| context.unavailable(&context.name_of(key), error))?;
    }
    Ok(())
}

/// Returns those of the holders that still are.
fn still_held(found: LockInfo, before: &[ClaimInfo], whom: &Whom) -> Vec<ClaimInfo> {
    let left = found.holders.into_iter();
    let left = left.filter(|it| before.iter().any(|known| known.token == it.token));
    left.filter(|it| is_the_same_body(it, whom)).collect()
}

/// Returns `false` if the lock was passed on, as its process reports, to another body than the one that was seen.
fn is_the_same_body(holder: &ClaimInfo, whom: &Whom) -> bool {
    match whom {
        Whom::Holder(seen) => holder.may_be_held_since(seen.since_seen()),
        Whom::Sole | Whom::All | Whom::Token(_) => true,
    }
}

async fn take(
    context: &Context,
    key: &str,
    holders: &[ClaimInfo],
) -> Result<Option<Revocation>, LockError> {
    let name = context.name_of(key);
    let mut all = Vec::new();
    for holder in holders {
        let deadline = deadline_in(context.command_timeout);
        let at_least = greatest(&all);
        let taken = context
            .engine
            .take(&name, &holder.token, at_least, deadline);
        let taken = taken.await;
        all.push(taken.map_err(|error| context.unavailable(&name, error))?);
    }
    Ok(outcome(&all))
}

fn outcome(all: &[Taken]) -> Option<Revocation> {
    let fencing_token = greatest(all);
    match all.iter().any(|taken| taken.pinned) {
        _ if !all.iter().any(was_taken) => None,
        true => Some(Revocation::InTransaction { fencing_token }),
        false => Some(Revocation::Taken { fencing_token }),
    }
}

/// Returns `true` unless the lock had been released by then.
fn was_taken(taken: &Taken) -> bool {
    taken.held || taken.pinned
}

/// Returns the greatest number of those that were drawn against a holder. If a lock had been released by then, others
/// may have it with a number below the one that was drawn.
fn greatest(all: &[Taken]) -> u64 {
    let taken = all.iter().filter(|taken| was_taken(taken));
    let numbers = taken.map(|taken| taken.fencing_token);
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(held: bool, fencing_token: u64) -> Taken {
        Taken {
            held,
            pinned: false,
            fencing_token,
        }
    }

    #[test]
    fn number_that_was_drawn_against_no_holder_is_told_to_nobody() {
        assert_eq!(outcome(&[taken(false, 7)]), None);
        let fencing_token = 7;
        let revoked = Some(Revocation::Taken { fencing_token });
        assert_eq!(outcome(&[taken(true, 7), taken(false, 9)]), revoked);
        assert_eq!(outcome(&[taken(false, 5), taken(true, 7)]), revoked);
        let pinned = Taken {
            pinned: true,
            ..taken(false, 7)
        };
        let revoked = Some(Revocation::InTransaction { fencing_token });
        assert_eq!(outcome(&[pinned]), revoked);
        assert_eq!(outcome(&[pinned, taken(true, 6)]), revoked);
    }
}
