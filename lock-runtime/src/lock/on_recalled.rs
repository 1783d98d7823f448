//! Another process waits for a lock that this one holds or keeps.

use crate::engine::recall::Recall;
use crate::engine::token::Token;
use crate::lock::context::Context;
use crate::lock::handoff::{Table, give_back};

/// Gives a kept lock back before that is reported: the other process waits.
pub(crate) fn on_recalled(context: &Context, table: &Table, recalled: &Recall) {
    let name = &*recalled.name;
    let any = || table.holds(name).into_iter().map(|hold| hold.token());
    let token = recalled
        .token
        .or_else(|| any().find(|it| it.is_recallable()));
    if let Some(token) = token {
        recall(context, table, name, token);
    }
}

fn recall(context: &Context, table: &Table, name: &str, token: Token) {
    let recall = table.recall(name, token);
    give_back(table, recall.kept);
    if recall.is_first {
        context.publish_recall(name);
    }
}
