//! Acquires several locks under one bound, in an order that all clients share: those that are free with one
//! request to each server.

use crate::engine::recall::Recall;
use crate::error::LockError;
use crate::lock::acquire::Acquire;
use crate::lock::gathering::Gathering;
use crate::lock::handoff::HoldGuard;
use crate::util::first_of::first_of;
use crate::util::join_all::join_all;
use crate::util::time::{deadline_in, now};
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Returns the calls in the order in which every client acquires locks, without those for a lock that is
/// named twice: in a cluster by slot, then by name. A call that waits for a lock then holds only earlier
/// ones, so no two calls wait for each other.
pub(crate) fn in_order(mut calls: Vec<Acquire>) -> Vec<Acquire> {
    let slot = |call: &Acquire| call.inner.context.engine.shard_of(&call.name).slot;
    calls.sort_by(|one, other| {
        let by_slot = slot(one).cmp(&slot(other));
        by_slot.then_with(|| one.name.cmp(&other.name))
    });
    calls.dedup_by(|one, other| one.name == other.name);
    calls
}

/// The greatest number of locks in one request, so that no script takes long.
const MAX_TOGETHER: usize = 64;

/// The greatest length of a name that is recalled together with others: a node of ZooKeeper keeps no more.
const MAX_RECALLED: usize = 150;

/// Acquires all locks, one after the other. If one of them is not acquired, the others are released. A call
/// that is not polled for some time loses those that it has, and begins anew.
pub(crate) async fn acquire_all(calls: &[Acquire]) -> Result<Vec<HoldGuard>, LockError> {
    for call in calls {
        call.check_nesting()?;
    }
    let Some(first) = calls.first() else {
        return Ok(Vec::new());
    };
    let tries_once = first.wait.is_zero();
    let deadline = deadline_in(first.wait);
    loop {
        let gathering = Gathering::begin(match tries_once {
            true => deadline_in(Duration::MAX),
            false => deadline,
        });
        let work = gather(calls, deadline, &gathering);
        let gathered = gathering.keep_while(first.inner.context.io, work).await;
        match (gathered, gathering.take()) {
            (Some(Ok(())), Some(guards)) => return Ok(guards),
            (Some(Err(error)), guards) => {
                if tries_once && let Some(guards) = guards {
                    // The next try finds them free.
                    join_all(guards.iter().map(HoldGuard::release_or_hand_off)).await;
                }
                return Err(error);
            }
            _ if now() >= deadline => return Err(first.busy()),
            _ => {}
        }
    }
}

/// Acquires all locks, unless those that it has are withdrawn.
async fn gather(
    calls: &[Acquire],
    deadline: Instant,
    gathering: &Gathering,
) -> Result<(), LockError> {
    let acquires = async {
        while let Some(count) = gathering.count()
            && let Some((call, rest)) = calls.get(count..).and_then(<[_]>::split_first)
        {
            acquire_next(call, rest, deadline, gathering).await?;
        }
        Ok(())
    };
    match first_of(acquires, recall_rest(calls, gathering)).await {
        Ok(acquired) => acquired,
        // They have been withdrawn.
        Err(()) => Ok(()),
    }
}

/// When the call waits for a lock that another process may keep, recalls those behind it from there, too:
/// they would be recalled one after the other. Ends with the locks.
async fn recall_rest(calls: &[Acquire], gathering: &Gathering) {
    // A try recalls nothing.
    let Some(first) = calls.first().filter(|first| !first.wait.is_zero()) else {
        return pending().await;
    };
    let mut sent = first.inner.queues.recalls.sent.subscribe();
    let mut recalled = HashMap::new();
    while sent.changed().await.is_ok() {
        let last = sent.borrow_and_update().clone();
        let Some(count) = gathering.count() else {
            return;
        };
        // Other calls recall what they wait for.
        let Some((_, keeper)) =
            last.filter(|(name, _)| Some(name) == calls.get(count).map(|it| &it.name))
        else {
            continue;
        };
        let behind = count + 1;
        let next = recalled.entry(keeper).or_insert(behind);
        if behind < *next {
            continue;
        }
        *next = behind + MAX_TOGETHER;
        let names = calls.iter().skip(behind).take(MAX_TOGETHER);
        let names = names.map(|call| call.name.clone());
        let names = names.filter(|name| name.len() <= MAX_RECALLED);
        let recalls: Vec<_> = names.map(|name| Recall { name, token: None }).collect();
        if !recalls.is_empty() {
            first.inner.context.recall(keeper, recalls);
        }
    }
}

/// Acquires the next lock, and in the same request those behind it that are on the same server and free.
async fn acquire_next(
    call: &Acquire,
    rest: &[Acquire],
    deadline: Instant,
    gathering: &Gathering,
) -> Result<(), LockError> {
    let engine = &call.inner.context.engine;
    let others = rest.iter().take(MAX_TOGETHER - 1);
    let others = others.take_while(|other| engine.in_one_request(&call.name, &other.name));
    let together: Arc<[Arc<str>]> = std::iter::once(call)
        .chain(others)
        .take_while(|call| call.is_new_here())
        .skip(1)
        .map(|call| call.name.clone())
        .collect();
    if together.is_empty() {
        gathering.add([call.acquire_until(deadline).await?]);
        return Ok(());
    }
    let count = 1 + together.len();
    let mut acquired = 0;
    if let Some((first, others)) = call.try_together(together, deadline).await? {
        acquired = 1 + others.len();
        gathering.add(std::iter::once(first).chain(others));
    }
    if acquired < count {
        let busy = acquired.checked_sub(1).map_or(call, |at| &rest[at]);
        if busy.wait.is_zero() {
            return Err(busy.busy());
        }
        gathering.add([busy.acquire_or_wait(true, deadline).await?]);
    }
    Ok(())
}
