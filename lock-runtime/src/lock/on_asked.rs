//! Doing what others ask, and answering.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::Holder;
use crate::lock::asks::{Ask, RevokeRequest, Stop};
use crate::lock::context::Context;
use crate::lock::handoff::Table;
use crate::lock::shared::Shared;
use crate::util::time::deadline_in;
use std::collections::HashMap;
use std::sync::Arc;

/// Does what is asked.
pub(crate) fn on_asked(shared: &Arc<Shared<Table>>, text: &str) {
    let context = &shared.context;
    match Ask::parse(text) {
        Some(Ask::Report) => context.reporter.on_asked(),
        Some(Ask::Revoke(request)) => {
            let is_own = |token: &&Token| matches!(token.holder(), Holder::Process { id, .. } if id == context.process);
            let own: Vec<_> = request.tokens.iter().filter(is_own).copied().collect();
            if own.is_empty() {
                return;
            }
            // Whoever wants a lock back wants to know who has it now.
            context.reporter.on_asked();
            let mut answers = HashMap::<Stop, Vec<Token>>::new();
            for token in own {
                if let Some(how) = give_up(shared, &request, token) {
                    answers.entry(how).or_default().push(token);
                }
            }
            for (how, tokens) in answers {
                let context = context.clone();
                context.io.spawn_detached(async move {
                    // Whoever does not hear it asks again.
                    let _ = context.say_stopped(tokens, how).await;
                });
            }
        }
        Some(Ask::Stopped(tokens, how)) => {
            for token in tokens {
                context.answers.came(token, how);
            }
        }
        None => {}
    }
}

/// Gives the lock up, as far as this process has it. Returns why no body is left that is meant, if none is.
fn give_up(shared: &Shared<Table>, request: &RevokeRequest, token: Token) -> Option<Stop> {
    let name = shared.context.name_of(&request.key);
    shared.table.end_retained(&name, token);
    let holds = shared.table.holds(&name);
    if let Some(hold) = holds.iter().find(|hold| hold.token() == token) {
        let is_another = !hold.give_up(request);
        return request.handoffs.filter(|_| is_another).map(Stop::PassedOn);
    }
    // The body may go on under the token of a reader.
    let has_gone_on = holds.iter().any(|hold| hold.replaces() == Some(token));
    (!has_gone_on).then_some(Stop::Absent)
}

impl Context {
    /// Answers that the bodies run no more which were to give up the lock with those tokens.
    pub(crate) async fn say_stopped(
        &self,
        tokens: Vec<Token>,
        how: Stop,
    ) -> Result<(), EngineError> {
        let answer = Ask::Stopped(tokens, how).to_string();
        let deadline = deadline_in(self.command_timeout);
        self.engine.ask(&answer, deadline).await
    }
}
