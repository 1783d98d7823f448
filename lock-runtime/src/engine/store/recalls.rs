//! Recalls: a waiter that finds a recallable token leaves a text for its process, and rings.

use crate::engine::common::recalling::recalled;
use crate::engine::error::EngineError;
use crate::engine::event::EngineEvent;
use crate::engine::request::Claim;
use crate::engine::store::core::Core;
use crate::engine::store::hearing::COVERED;
use crate::engine::store::record::Record;
use crate::engine::store::texts::Texts;
use crate::util::time::{deadline_in, now, sleep_until};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long one recall may take, and how long its reading.
const PATIENCE: Duration = Duration::from_secs(2);

impl Core {
    /// Returns `true` if this process would hear a recall. Begins to listen.
    pub(crate) fn hears_recalls(self: &Arc<Self>) -> bool {
        let Some(bells) = self.store.bells() else {
            return false;
        };
        self.recalls.get_or_init(|| {
            // One that comes while a record is read may have been written too late for that.
            let (rung, rings) = mpsc::channel(1);
            self.io.spawn_detached(read(Arc::downgrade(self), rings));
            rung
        });
        self.hear();
        bells.hears()
    }

    /// Recalls the lock from the one that holds it alone, if it is time for that.
    pub(crate) fn recall(self: &Arc<Self>, claim: &Claim, ahead: usize, record: &Record) {
        let [holder] = &record.holders[..] else {
            return;
        };
        let holder = holder.token;
        let Some(text) = self.recalling.text(claim, ahead as u64, holder, now()) else {
            return;
        };
        let core = self.clone();
        self.io.spawn_detached(async move {
            let name = core.keys.recalls(holder.process()).into();
            let left = core.leave(&name, text.into(), deadline_in(PATIENCE));
            if left.await.is_ok() {
                core.ring_for(holder);
            }
        });
    }

    /// Reports what others have recalled. What is reported twice does no harm.
    async fn read_recalls(&self) -> Result<(), EngineError> {
        let name = self.keys.recalls(self.process);
        let deadline = deadline_in(PATIENCE);
        let loaded = self.look(&name, deadline).await?;
        for text in Texts::read(&loaded).last {
            recalled(&text)
                .into_iter()
                .for_each(|event| (self.handler)(event));
        }
        if let Some((_, version)) = &loaded.found {
            self.replace(&name, Some(version), None, deadline).await?;
        }
        Ok(())
    }
}

/// Reads whenever the bell rings, and once more when that may have covered another one, until the engine is
/// dropped.
async fn read(core: Weak<Core>, mut rings: mpsc::Receiver<()>) {
    while let Some(()) = rings.recv().await {
        for pause in [Duration::ZERO, COVERED] {
            sleep_until(deadline_in(pause)).await;
            let Some(core) = core.upgrade() else {
                return;
            };
            match core.store.bells().is_some_and(|it| it.hears()) {
                // Whoever still waits recalls again.
                true => drop(core.read_recalls().await),
                false => (core.handler)(EngineEvent::Resubscribed),
            }
        }
    }
}
