//! What a process reports now: the holds and the waits that last longest.

use crate::lock::claim_events::ClaimEvents;
use crate::lock::context::Context;
use crate::lock::local_queue::LocalQueues;
use crate::lock::report::text::MOST;
use crate::lock::watchdog::Watchdog;
use crate::lock::watchdog::renewable::{Renewable, Since};
use crate::process_info::{ReportedHold, ReportedWait, Unlisted};
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the holds whose guards have had them longest, and if there is room, those that are kept without a
/// guard. Counts the others.
pub(crate) async fn longest_holds(watchdog: &Watchdog, more: &mut Unlisted) -> Vec<ReportedHold> {
    let mut longest: Vec<(Since, Arc<dyn Renewable>)> = Vec::new();
    let mut counted = HashSet::new();
    let mut after = None;
    while let Some((last, holds)) = watchdog.portion(after) {
        longest.extend(
            holds
                .into_iter()
                .filter_map(|hold| Some((hold.since()?, hold))),
        );
        let identity =
            |(since, hold): &(Since, Arc<dyn Renewable>)| (*since, Arc::as_ptr(hold).addr());
        longest.sort_by_key(identity);
        // One that was renewed meanwhile is found again.
        longest.dedup_by_key(|it| identity(it));
        for it in longest.drain(longest.len().min(MOST)..) {
            if counted.insert(identity(&it)) {
                more.add(matches!(it.0, Since::Held(_)));
            }
        }
        after = Some(last);
        // The leases of others are due.
        tokio::task::yield_now().await;
    }
    let lines = longest.iter().map(|(_, hold)| hold.describe());
    lines.collect()
}

/// Returns the claims that wait on the server. Counts those for which there is no room.
pub(crate) fn waits<T>(
    context: &Context,
    queues: &LocalQueues<T>,
    claims: &ClaimEvents,
    more: &mut Unlisted,
) -> Vec<ReportedWait> {
    let (waiting, all) = claims.some(MOST);
    more.other += (all - waiting.len()) as u64;
    let lines = waiting.into_iter().map(|(token, name)| ReportedWait {
        token: token.to_string().into(),
        callers: queues.waiting(&name, token.limit()) as u64,
        key: context.key_of(&name).into(),
    });
    lines.collect()
}
