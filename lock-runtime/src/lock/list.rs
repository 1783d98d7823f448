//! Finding the locks that are in use, and the processes that use them.

use crate::error::LockError;
use crate::lock::asks::Ask;
use crate::lock::context::Context;
use crate::lock::inspect::{describe, viewed_together};
use crate::lock::processes::{Processes, in_order, read_processes};
use crate::lock_info::LockInfo;
use crate::options::invalid_key;
use crate::process_info::ProcessInfo;
use crate::util::join_all::join_all;
use crate::util::time::{deadline_in, now};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// For how long the processes may take to report.
const TIME_TO_REPORT: Duration = Duration::from_millis(150);

/// How many locks one request looks at, and how many are looked at at once.
const TOGETHER: usize = 32;
const AT_ONCE: usize = 4 * TOGETHER;

/// How many reported locks are looked at beside those that are meant: those may have ended since.
const ENDED: usize = 4096;

/// Asks all processes to report, and gives them the time for it.
pub(crate) async fn ask_for_reports(context: &Context) -> Result<(), LockError> {
    let deadline = deadline_in(context.command_timeout);
    let asked = context.engine.ask(&Ask::Report.to_string(), deadline).await;
    asked.map_err(|error| context.server_unavailable(error))?;
    context.observed.on_asked(now());
    context.io.sleep_until(deadline_in(TIME_TO_REPORT)).await;
    Ok(())
}

/// Returns the locks in use whose keys have that prefix, in the order of their keys, and the processes that
/// have reported.
pub(crate) async fn list(
    context: &Context,
    prefix: &str,
    most: usize,
    scan: bool,
) -> (
    Result<Vec<LockInfo>, LockError>,
    Result<Vec<ProcessInfo>, LockError>,
) {
    if prefix.starts_with(':') {
        let reason = "no key begins with `:`; choose another prefix";
        let error = invalid_key(prefix, reason);
        return (Err(error.clone()), Err(error));
    }
    let processes = read_processes(context, None).await;
    let locks = locks(context, prefix, most, scan, processes.as_ref()).await;
    (locks, processes.map(in_order))
}

async fn locks(
    context: &Context,
    prefix: &str,
    most: usize,
    scan: bool,
    processes: Result<&Processes, &LockError>,
) -> Result<Vec<LockInfo>, LockError> {
    let reading = context.begin_reading();
    let not_read = |error| context.not_read(reading, error);
    let names = match scan || context.engine.has_index() {
        true => {
            let prefix = context.name_of(prefix);
            let names = context.engine.names(&prefix, most, reading).await;
            BTreeSet::from_iter(names.map_err(not_read)?)
        }
        false => {
            let processes = processes.map_err(Clone::clone)?;
            reported_names(context, processes, prefix, most.saturating_add(ENDED))
        }
    };
    // Whoever may not read the reports sees the locks without them.
    let unknown = Processes::new();
    let processes = processes.unwrap_or(&unknown);
    let names: Vec<_> = names.into_iter().collect();
    let mut found = Vec::new();
    for some in names.chunks(AT_ONCE) {
        if found.len() >= most {
            break;
        }
        let looks = some.chunks(TOGETHER);
        let looks = looks.map(|names| viewed_together(context, names, reading.next()));
        for locks in join_all(looks).await {
            found.extend(locks.map_err(not_read)?);
        }
        found.retain(|lock: &LockInfo| !lock.holders.is_empty() || lock.waiting > 0);
    }
    found.truncate(most);
    describe(&mut found, processes);
    Ok(found)
}

/// Returns the names that processes have reported, `most` of them at the most. One process may report many,
/// so the first of each is worth as much as the others' first; and each second since a report is worth one
/// name less, since processes that were killed leave theirs behind.
fn reported_names(
    context: &Context,
    processes: &Processes,
    prefix: &str,
    most: usize,
) -> BTreeSet<Arc<str>> {
    let ranked = processes.values().flat_map(|process| {
        let age = process.age.unwrap_or_default().as_secs();
        let held = process.holds.iter().map(|hold| &*hold.key);
        let keys = held.chain(process.waits.iter().map(|wait| &*wait.key));
        let keys = keys.filter(|key| !key.is_empty() && !key.starts_with(':'));
        let keys = keys.filter(|key| key.starts_with(prefix));
        (age..).zip(keys)
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable_by_key(|(rank, _)| *rank);
    let mut names = BTreeSet::new();
    for (_, key) in ranked {
        if names.len() >= most {
            break;
        }
        names.insert(context.name_of(key));
    }
    names
}
