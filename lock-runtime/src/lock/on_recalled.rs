//! Another process waits for a lock that this one holds or keeps, or is about to.

use crate::engine::recall::Recall;
use crate::lock::context::Context;
use crate::lock::handoff::{Table, give_back};
use std::time::Duration;

/// For how long a lock is not kept again that another process is about to acquire.
const SOON: Duration = Duration::from_secs(1);

/// Gives a kept lock back before that is reported: the other process waits.
pub(crate) fn on_recalled(context: &Context, table: &Table, recalled: &Recall) {
    let name = &recalled.name;
    let is_first = match recalled.token {
        Some(token) => {
            let recall = table.recall(name, token);
            give_back(table, recall.kept);
            recall.is_first
        }
        None => {
            let kept = table.recall_kept(name);
            let was_kept = kept.is_some();
            if was_kept {
                table.recalls.back_off(name, SOON);
            }
            give_back(table, kept);
            was_kept
        }
    };
    if is_first {
        context.publish_recall(name);
    }
}
