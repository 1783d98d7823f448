//! Asks all processes: a record with the last texts, at which each looks that listens.

use crate::engine::error::EngineError;
use crate::engine::event::EngineEvent;
use crate::engine::store::StoreEngine;
use crate::engine::store::core::Core;
use crate::engine::store::texts::Texts;
use crate::util::time::deadline_in;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(2);

impl Core {
    /// Reports what is asked from now on, until the engine is dropped.
    pub(crate) fn listen(self: &Arc<Self>) {
        if !self.listening.has_begun.swap(true, Ordering::Relaxed) {
            self.io.spawn_detached(look(Arc::downgrade(self)));
        }
    }
}

async fn look(core: Weak<Core>) {
    let mut last = None;
    while let Some(core) = core.upgrade() {
        let (sent, deadline) = (core.clock.now(), deadline_in(PATIENCE));
        if let Ok(loaded) = core.look(&core.keys.asks, deadline).await {
            core.note_time(&loaded, sent);
            let texts = Texts::read(&loaded);
            let since = last.replace(texts.count).unwrap_or(texts.count);
            let new = texts.count.saturating_sub(since) as usize;
            if new > 0 {
                core.listening.hurry();
            }
            for text in texts.last.iter().rev().take(new).rev() {
                (core.handler)(EngineEvent::Asked(text.clone()));
            }
        }
        let (io, listening) = (core.io, core.listening.clone());
        drop(core);
        let asked = listening.asked.notified();
        let _ = io.timeout_at(listening.next(), asked).await;
    }
}

impl StoreEngine {
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let core = &self.core;
        core.leave(&core.keys.asks, text.into(), deadline).await?;
        core.listening.hurry();
        Ok(())
    }
}
