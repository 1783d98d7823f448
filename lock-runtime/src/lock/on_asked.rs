//! Doing what others ask, and answering.

use crate::engine::error::EngineError;
use crate::engine::token::Token;
use crate::error::Holder;
use crate::lock::asks::{Ask, Stop, Wanted};
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
    fn has_made(&self, wanted: &Wanted) -> bool {
        matches!(wanted.token.holder(), Holder::Process { id, .. } if id == self.context.process)
    }

    fn on_wanted(self: &Arc<Self>, wanted: Wanted) {
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
    async fn give_up(&self, asks: &[Wanted]) {
        for wanted in asks {
            self.retained.end(wanted.token);
        }
        let mut running = HashSet::new();
        let mut passed_on = HashSet::new();
        let asked = self.each_hold(|hold| {
            let token = hold.token();
            for wanted in asks.iter().filter(|wanted| wanted.token == token) {
                match hold.revoke(wanted) {
                    true => running.insert(token),
                    false => passed_on.insert(token),
                };
            }
        });
        asked.await;
        let may_run = |token| running.contains(&token) || self.lost.contains(token);
        for Wanted { token, .. } in asks.iter().filter(|wanted| !may_run(wanted.token)) {
            let how = match passed_on.contains(token) {
                true => Stop::PassedOn,
                false => Stop::Absent,
            };
            // Whoever does not hear it asks again.
            let _ = self.context.say_stopped(*token, how).await;
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
