//! Reads who holds a lock and who waits for it.

use crate::engine::error::EngineError;
use crate::engine::view::{View, ViewedHolder};
use crate::error::LockError;
use crate::lock::claim_info::claim;
use crate::lock::context::Context;
use crate::lock::processes::{Processes, read_processes};
use crate::lock::rivals::ReportedHolds;
use crate::lock_info::{ClaimInfo, ClaimReport, LockInfo};
use crate::options::validate_key;
use crate::util::time::deadline_in;
use std::sync::Arc;
use tokio::time::Instant;

/// The greatest number of waiters that are read.
const MAX_WAITERS: usize = 100;

/// Reads who has a lock and waits for it, and what their processes report.
pub(crate) async fn inspect(context: &Context, key: &str) -> Result<LockInfo, LockError> {
    described(context, key, false).await
}

/// Does the same, and reads what all processes report.
pub(crate) async fn inspect_with_rivals(
    context: &Context,
    key: &str,
) -> Result<LockInfo, LockError> {
    described(context, key, true).await
}

async fn described(context: &Context, key: &str, by_all: bool) -> Result<LockInfo, LockError> {
    validate_key(key)?;
    let mut lock = viewed(context, &context.name_of(key)).await?;
    let claims = lock.holders.iter().chain(&lock.waiters);
    let mut processes: Vec<_> = claims.filter_map(ClaimInfo::process).collect();
    processes.sort_unstable_by_key(|process| process.0);
    processes.dedup();
    if !processes.is_empty() {
        // Whoever may not read the reports sees the lock without them.
        let of = Some(&*processes).filter(|_| !by_all);
        let processes = read_processes(context, of).await;
        describe(
            std::slice::from_mut(&mut lock),
            &processes.unwrap_or_default(),
        );
    }
    Ok(lock)
}

/// Looks at a lock on the server.
pub(crate) async fn viewed(context: &Context, name: &str) -> Result<LockInfo, LockError> {
    let deadline = deadline_in(context.command_timeout);
    let view = context.engine.view(name, MAX_WAITERS, deadline).await;
    let view = view.map_err(|error| context.unavailable(name, error))?;
    Ok(info(context, name, view))
}

/// Looks at a few locks at once.
pub(crate) async fn viewed_together(
    context: &Context,
    names: &[Arc<str>],
    deadline: Instant,
) -> Result<Vec<LockInfo>, EngineError> {
    let views = context.engine.views(names, MAX_WAITERS, deadline).await?;
    let locks = names.iter().zip(views);
    Ok(locks
        .map(|(name, view)| info(context, name, view))
        .collect())
}

fn info(context: &Context, name: &str, view: View) -> LockInfo {
    LockInfo {
        key: context.key_of(name).into(),
        holders: view.holders.into_iter().map(holder).collect(),
        waiters: view.waiters.into_iter().map(claim).collect(),
        waiting: view.waiting,
        rivals: Vec::new(),
    }
}

/// Adds to locks what the processes report of their claims, and of others on the same locks.
pub(crate) fn describe(locks: &mut [LockInfo], processes: &Processes) {
    let reported = ReportedHolds::of(processes);
    for lock in locks {
        describe_claims(lock, processes);
        lock.rivals = reported.rivals_of(lock);
    }
}

fn describe_claims(lock: &mut LockInfo, processes: &Processes) {
    for claim in lock.holders.iter_mut().chain(&mut lock.waiters) {
        let process = claim.process().and_then(|process| processes.get(&process));
        claim.report = process.map(|process| ClaimReport::of(&claim.token, process));
    }
}

fn holder(viewed: ViewedHolder) -> ClaimInfo {
    ClaimInfo {
        lease: Some(viewed.lease),
        votes: viewed.votes,
        ..claim(viewed.token)
    }
}
