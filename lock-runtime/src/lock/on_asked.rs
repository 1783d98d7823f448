//! Doing what others ask, and answering.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::Holder;
use crate::lock::asks::{Ask, RevokeRequest, Stop};
use crate::lock::context::Context;
use crate::lock::shared::Shared;
use crate::util::time::deadline_in;
use std::collections::HashSet;
use std::sync::Arc;

impl Shared {
    /// Does what is asked, in the background.
    pub(crate) fn on_asked(self: &Arc<Self>, text: &str) {
        match Ask::parse(text) {
            Some(Ask::Report) => self.context.reporter.on_asked(),
            Some(Ask::Revoke(wanted)) if self.has_made(&wanted) => self.on_wanted(wanted),
            Some(Ask::Stopped(token, how)) => {
                // Unless a revocation waits for it, no one receives it.
                let _ = self.context.stopped.send((token, how));
            }
            _ => {}
        }
    }

    /// Returns `true` if this process has made the token.
    fn has_made(&self, wanted: &RevokeRequest) -> bool {
        matches!(wanted.token.holder(), Holder::Process { id, .. } if id == self.context.process)
    }

    fn on_wanted(self: &Arc<Self>, wanted: RevokeRequest) {
        // Whoever wants a lock back wants to know who has it now.
        self.context.reporter.on_asked();
        if self.asks.add(wanted) {
            let this = self.clone();
            self.context.io.spawn_detached(async move {
                while let Some(asks) = this.asks.take() {
                    this.give_up(&asks).await;
                }
            });
        }
    }

    /// Gives up the locks that are wanted back, as far as this process holds them, and says which bodies have stopped.
    async fn give_up(&self, asks: &[RevokeRequest]) {
        for wanted in asks {
            self.retained.end(wanted.token);
        }
        let mut held = HashSet::new();
        let mut answers = Vec::new();
        let asked = self.each_hold(|hold| {
            let token = hold.token();
            for ask in asks.iter().filter(|ask| ask.token == token) {
                held.insert(token);
                if let (false, Some(handoffs)) = (hold.revoke(ask), ask.handoffs) {
                    answers.push((token, Stop::PassedOn(handoffs)));
                }
            }
            // The body goes on under the token of a reader.
            held.extend(hold.replaces());
        });
        asked.await;
        let tokens = asks.iter().map(|ask| ask.token);
        let is_absent = |token: &Token| !held.contains(token) && !self.lost.contains(*token);
        answers.extend(tokens.filter(is_absent).map(|token| (token, Stop::Absent)));
        for (token, how) in answers {
            // Whoever does not hear it asks again.
            let _ = self.context.say_stopped(token, how).await;
        }
    }
}

impl Context {
    /// Answers that the body runs no more which was to give up the lock with that token.
    pub(crate) async fn say_stopped(&self, token: Token, how: Stop) -> Result<(), EngineError> {
        let answer = Ask::Stopped(token, how).to_string();
        let deadline = deadline_in(self.command_timeout);
        self.engine.ask(&answer, deadline).await
    }
}
