//! Another process waits for a lock that this one holds or keeps.

use crate::engine::token::Token;
use crate::lock::context::Context;
use crate::lock::handoff::{Table, give_back};

/// Gives a kept lock back before that is reported: the other process waits.
pub(crate) fn on_recalled(context: &Context, table: &Table, name: &str, token: Token) {
    let recall = table.recall(name, token);
    give_back(table, recall.kept);
    if recall.is_first {
        context.publish_recall(name);
    }
}
