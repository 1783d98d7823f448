//! Doing what others ask.

use crate::error::Holder;
use crate::lock::asks::Ask;
use crate::lock::shared::Shared;
use std::sync::Arc;

impl Shared {
    /// Does what is asked, in the background.
    pub(crate) fn on_asked(self: &Arc<Self>, text: &str) {
        let Some(ask) = Ask::parse(text) else {
            return;
        };
        if let Ask::Revoke { token, .. } = &ask {
            let own = self.context.process;
            if !matches!(token.holder(), Holder::Process { id, .. } if id == own) {
                return;
            }
        }
        // Whoever revokes a lock wants to know who has it now.
        self.context.reporter.on_asked();
        if ask != Ask::Report && self.asks.add(ask) {
            let this = self.clone();
            self.context.io.spawn_detached(async move {
                loop {
                    let asks = this.asks.take();
                    if asks.is_empty() {
                        return;
                    }
                    this.give_up(&asks).await;
                }
            });
        }
    }

    /// Gives up the locks that are wanted back, as far as this process holds them.
    async fn give_up(&self, asks: &[Ask]) {
        for ask in asks {
            if let Ask::Revoke { token, .. } = ask {
                self.kept.end(*token);
            }
        }
        let mut after = None;
        while let Some((last, holds)) = self.watchdog.portion(after) {
            for hold in holds {
                let held = hold.token();
                for ask in asks {
                    if let Ask::Revoke {
                        token,
                        held_for,
                        by,
                        reason,
                    } = ask
                        && *token == held
                    {
                        hold.revoke(*held_for, by, reason);
                    }
                }
            }
            after = Some(last);
            tokio::task::yield_now().await;
        }
    }
}
