//! Asks all processes: a record with the last texts, at which each looks that listens.

use crate::engine::error::EngineError;
use crate::engine::event::EngineEvent;
use crate::engine::operations::beginning;
use crate::engine::store::StoreEngine;
use crate::engine::store::batches::{Request, deadline_of};
use crate::engine::store::core::Core;
use crate::engine::store::record::STAMP;
use crate::own_store::Loaded;
use crate::util::time::deadline_in;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many bytes of texts are kept.
const KEPT: usize = 32 << 10;

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
    /// Texts that other calls ask meanwhile are written with this: a body that many wait for has many answers
    /// at once.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let (core, name) = (&self.core, &self.core.keys.asks);
        let writer = core.clone();
        let write = |batch| writer.write(batch);
        core.texts
            .request(core.io, name, text.into(), deadline, write)
            .await
    }
}

impl Core {
    async fn write(self: Arc<Self>, mut batch: Vec<Request<Arc<str>, ()>>) {
        let deadline = deadline_of(&batch);
        batch.retain(Request::is_awaited);
        if batch.is_empty() {
            return;
        }
        let add = |present: &Loaded| {
            let mut all = Texts::read(present);
            batch.iter().for_each(|request| all.add(&request.what));
            all.encode()
        };
        let written = self.rewrite(&self.keys.asks, add, deadline).await;
        if written.is_ok() {
            self.listening.hurry();
        }
        for request in batch {
            request.reply(written.clone());
        }
    }
}

/// The last texts, and how many there were.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Texts {
    count: u64,
    last: Vec<Arc<str>>,
}

impl Texts {
    /// Anything may be in the record.
    pub(crate) fn read(loaded: &Loaded) -> Texts {
        let record = loaded.found.as_ref().map_or(&[][..], |(record, _)| record);
        let parts = record
            .split_at_checked(STAMP)
            .and_then(|(_, rest)| rest.split_first_chunk());
        let Some((count, texts)) = parts else {
            return Texts::default();
        };
        let mut last = Vec::new();
        let mut rest = texts;
        while let Some((length, texts)) = rest.split_first_chunk()
            && let Some((text, texts)) =
                texts.split_at_checked(u32::from_be_bytes(*length) as usize)
        {
            last.push(beginning(text));
            rest = texts;
        }
        let count = u64::from_be_bytes(*count);
        Texts { count, last }
    }

    pub(crate) fn add(&mut self, text: &str) {
        self.count = self.count.saturating_add(1);
        self.last.push(text.into());
        let mut length = 0;
        let kept = self.last.iter().rev().take_while(|text| {
            length += text.len();
            length <= KEPT
        });
        let more = self.last.len() - kept.count().max(1);
        self.last.drain(..more);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut record = Uuid::new_v4().into_bytes().to_vec();
        record.extend(self.count.to_be_bytes());
        for text in &self.last {
            record.extend((text.len() as u32).to_be_bytes());
            record.extend(text.as_bytes());
        }
        record
    }
}
