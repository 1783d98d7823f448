//! Doing what others ask.

use crate::error::Holder;
use crate::lock::asks::{Ask, Wanted};
use crate::lock::shared::Shared;
use std::sync::Arc;

impl Shared {
    /// Does what is asked, in the background.
    pub(crate) fn on_asked(self: &Arc<Self>, text: &str) {
        match Ask::parse(text) {
            Some(Ask::Report) => self.context.reporter.on_asked(),
            Some(Ask::Revoke(wanted)) if self.has_made(&wanted) => self.on_wanted(wanted),
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

    /// Gives up the locks that are wanted back, as far as this process holds them.
    async fn give_up(&self, asks: &[Wanted]) {
        for wanted in asks {
            self.retained.end(wanted.token);
        }
        let mut after = None;
        while let Some((last, holds)) = self.watchdog.portion(after) {
            for hold in holds {
                let token = hold.token();
                for wanted in asks.iter().filter(|wanted| wanted.token == token) {
                    hold.revoke(wanted);
                }
            }
            after = Some(last);
            tokio::task::yield_now().await;
        }
    }
}
