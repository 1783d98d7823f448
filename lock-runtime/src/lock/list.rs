//! Finding the locks that are in use, and the processes that use them.

use crate::error::LockError;
use crate::lock::asks::Ask;
use crate::lock::context::Context;
use crate::lock::inspect::{Told, describe, told, viewed};
use crate::lock_info::LockInfo;
use crate::options::invalid_key;
use crate::process_info::ProcessInfo;
use crate::util::join_all::join_all;
use crate::util::time::deadline_in;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// For how long the processes may take to report.
const TIME_TO_REPORT: Duration = Duration::from_millis(150);

/// How many locks are looked at at once.
const AT_ONCE: usize = 128;

/// Asks all processes to report, and gives them the time for it.
pub(crate) async fn ask_for_reports(context: &Context) -> Result<(), LockError> {
    let deadline = deadline_in(context.command_timeout);
    let asked = context.engine.ask(&Ask::Report.to_string(), deadline).await;
    asked.map_err(|error| context.server_unavailable(error))?;
    context.io.sleep_until(deadline_in(TIME_TO_REPORT)).await;
    Ok(())
}

/// Returns the processes that have reported, those of one service side by side.
pub(crate) async fn processes(context: &Context) -> Result<Vec<ProcessInfo>, LockError> {
    let told = told(context, None).await?.into_values();
    let mut found: Vec<_> = told.map(Arc::unwrap_or_clone).collect();
    let order = |it: &ProcessInfo| (it.service.clone(), it.host.clone(), it.pid, it.id.0);
    found.sort_by_cached_key(order);
    Ok(found)
}

/// Returns the locks in use whose keys have that prefix, in the order of their keys.
pub(crate) async fn list(
    context: &Context,
    prefix: &str,
    most: usize,
    scan: bool,
) -> Result<Vec<LockInfo>, LockError> {
    if prefix.starts_with(':') {
        let reason = "no key begins with `:`; choose another prefix";
        return Err(invalid_key(prefix, reason));
    }
    let told = told(context, None).await;
    let names = match scan || context.engine.has_index() {
        true => {
            let deadline = deadline_in(context.command_timeout);
            let prefix = context.name_of(prefix);
            let names = context.engine.names(&prefix, most, deadline).await;
            let names = names.map_err(|error| context.server_unavailable(error))?;
            BTreeSet::from_iter(names)
        }
        false => reported_names(context, told.as_ref().map_err(Clone::clone)?, prefix),
    };
    // Whoever may not read the reports sees the locks without what they tell.
    let told = told.unwrap_or_default();
    let names: Vec<_> = names.into_iter().collect();
    let mut found = Vec::new();
    // What was reported may have ended since.
    for some in names.chunks(AT_ONCE) {
        if found.len() >= most {
            break;
        }
        for lock in join_all(some.iter().map(|name| viewed(context, name))).await {
            found.push(lock?);
        }
        found.retain(|lock: &LockInfo| !lock.holders.is_empty() || lock.waiting > 0);
    }
    found.truncate(most);
    found.iter_mut().for_each(|lock| describe(lock, &told));
    Ok(found)
}

fn reported_names(context: &Context, told: &Told, prefix: &str) -> BTreeSet<Arc<str>> {
    let keys = told.values().flat_map(|process| {
        let held = process.holds.iter().map(|hold| &hold.key);
        held.chain(process.waits.iter().map(|wait| &wait.key))
    });
    let keys = keys.filter(|key| !key.is_empty() && !key.starts_with(':'));
    let keys = keys.filter(|key| key.starts_with(prefix));
    keys.map(|key| context.name_of(key)).collect()
}
