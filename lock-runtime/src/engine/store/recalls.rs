//! Recalls: whoever recalls locks from a process leaves a text there for each, and rings.

use crate::engine::error::EngineError;
use crate::engine::event::EngineEvent;
use crate::engine::recall::Recall;
use crate::engine::store::StoreEngine;
use crate::engine::store::core::Core;
use crate::engine::store::hearing::COVERED;
use crate::engine::store::texts::Texts;
use crate::process::ProcessId;
use crate::util::join_all::join_all;
use crate::util::time::{deadline_in, timeout_at};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long one reading may take.
const PATIENCE: Duration = Duration::from_secs(2);

impl Core {
    /// Returns `true` if this process would hear a recall. Begins to listen.
    pub(crate) fn hears_recalls(self: &Arc<Self>) -> bool {
        self.recalls.get_or_init(|| {
            // One that comes while a record is read may have been written too late for that.
            let (rung, rings) = mpsc::channel(1);
            self.io.spawn_detached(read(Arc::downgrade(self), rings));
            rung
        });
        self.hear();
        self.hears()
    }

    /// Reports what others have recalled. What is reported twice does no harm.
    async fn read_recalls(&self) -> Result<(), EngineError> {
        let name = self.keys.recalls(self.process);
        let deadline = deadline_in(PATIENCE);
        let loaded = self.look(&name, deadline).await?;
        for text in Texts::read(&loaded).last {
            Recall::parse(&text)
                .map(EngineEvent::Recalled)
                .into_iter()
                .for_each(|event| (self.handler)(event));
        }
        if let Some((_, version)) = &loaded.found {
            self.replace(&name, Some(version), None, deadline).await?;
        }
        Ok(())
    }
}

impl StoreEngine {
    /// A process that keeps locks hears bells.
    pub(crate) async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let name = self.core.keys.recalls(from).into();
        let texts = recalls.iter().map(|it| it.to_string().into());
        let left = texts.map(|text| self.core.leave(&name, text, deadline));
        let left = join_all(left).await;
        if left.iter().any(Result::is_ok) {
            self.core.ring_process(from);
        }
        left.into_iter().collect()
    }
}

/// Reads whenever the bell rings, and once more when that may have covered another one, until the engine is
/// dropped.
async fn read(core: Weak<Core>, mut rings: mpsc::Receiver<()>) {
    let mut again = None;
    loop {
        let rung = match again.take() {
            Some(at) => timeout_at(at, rings.recv()).await,
            None => Ok(rings.recv().await),
        };
        let (Some(core), false) = (core.upgrade(), matches!(rung, Ok(None))) else {
            return;
        };
        match core.hears() {
            // Whoever still waits recalls again.
            true => drop(core.read_recalls().await),
            false => (core.handler)(EngineEvent::Resubscribed),
        }
        again = rung.is_ok().then(|| deadline_in(COVERED));
    }
}
