//! The processes that have reported, and which of them are silent.

use crate::error::LockError;
use crate::lock::context::Context;
use crate::lock::report::text::parse;
use crate::process::ProcessId;
use crate::process_info::{ProcessInfo, Unlisted};
use crate::util::time::now;
use std::collections::HashMap;
use std::sync::Arc;

/// The processes that have reported.
pub(crate) type Processes = HashMap<ProcessId, Arc<ProcessInfo>>;

/// Returns those of these processes, or of all, that have reported.
pub(crate) async fn read_processes(
    context: &Context,
    of: Option<&[ProcessId]>,
) -> Result<Processes, LockError> {
    let reading = context.begin_reading();
    let reports = context.engine.reports(of, reading).await;
    let reports = reports.map_err(|error| context.not_read(reading, error))?;
    let now = now();
    let processes = reports.iter().filter_map(|stored| {
        let mut info = parse(stored)?;
        info.elapsed = context.observed.age(stored, now);
        info.unanswered = context.observed.unanswered(info.elapsed, now);
        if context.engine.has_index() {
            info.unlisted = Unlisted::default();
        }
        Some((info.id, Arc::new(info)))
    });
    Ok(processes.collect())
}

/// Returns the processes that have reported, those of one service side by side.
pub(crate) async fn processes(context: &Context) -> Result<Vec<ProcessInfo>, LockError> {
    read_processes(context, None).await.map(in_order)
}

/// Returns them in that order.
pub(crate) fn in_order(processes: Processes) -> Vec<ProcessInfo> {
    let processes = processes.into_values();
    let mut found: Vec<_> = processes.map(Arc::unwrap_or_clone).collect();
    let order = |it: &ProcessInfo| (it.service.clone(), it.host.clone(), it.pid, it.id.0);
    found.sort_by_cached_key(order);
    found
}
