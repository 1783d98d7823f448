//! Doing what others ask.

use crate::engine::token::Token;
use crate::lock::asks::Ask;
use crate::lock::shared::Shared;
use std::sync::Arc;

impl Shared {
    /// Does what is asked, in the background.
    pub(crate) fn on_asked(self: &Arc<Self>, text: &str) {
        match Ask::parse(text) {
            Some(Ask::Report) => self.context.reporter.on_asked(),
            Some(Ask::Revoke {
                token,
                handoffs,
                by,
                reason,
            }) => {
                let this = self.clone();
                self.context.io.spawn_detached(async move {
                    this.give_up(token, handoffs, &by, &reason).await;
                });
            }
            None => {}
        }
    }

    /// Gives up the lock that is held with that token, if this process holds it.
    async fn give_up(&self, token: Token, handoffs: Option<u32>, by: &str, reason: &str) {
        self.kept.end(token);
        let mut after = None;
        while let Some((last, holds)) = self.watchdog.portion(after) {
            let found = holds.iter().find(|hold| hold.token() == token);
            if let Some(hold) = found {
                return hold.revoke(handoffs, by, reason);
            }
            after = Some(last);
            tokio::task::yield_now().await;
        }
    }
}
