//! Another process waits for a lock that this one holds or keeps, or is about to.

use crate::engine::recall::Recall;
use crate::lock::context::Context;
use crate::lock::handoff::{Table, give_back};

/// Gives a kept lock back before that is reported: the other process waits.
pub(crate) fn on_recalled(context: &Context, table: &Table, Recall { name, token }: &Recall) {
    let effect = match token {
        Some(token) => table.recall(name, *token),
        None => table.recall_kept(name),
    };
    give_back(table, effect.kept);
    if effect.is_first {
        context.publish_recall(name);
    }
}
