//! Records of texts that processes leave for others.

use crate::engine::common::batches::{Request, deadline_of};
use crate::engine::error::EngineError;
use crate::engine::operations::beginning;
use crate::engine::store::core::Core;
use crate::engine::store::record::STAMP;
use crate::own_store::Loaded;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

/// How many bytes of texts are kept.
const KEPT: usize = 32 << 10;

impl Core {
    /// Adds a text to the record of that name. Those that other calls add meanwhile are written with it: a
    /// body that many wait for has many answers at once.
    pub(crate) async fn leave(
        self: &Arc<Self>,
        name: &Arc<str>,
        text: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let (core, of) = (self.clone(), name.clone());
        let write = |batch| core.write(of, batch);
        let request = self.texts.request(self.io, name, text, deadline, write);
        request.await
    }

    async fn write(self: Arc<Self>, name: Arc<str>, mut batch: Vec<Request<Arc<str>, ()>>) {
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
        let written = self.rewrite(&name, add, deadline).await;
        for request in batch {
            request.reply(written.clone());
        }
    }
}

/// The last texts, and how many there were.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Texts {
    pub(crate) count: u64,
    pub(crate) last: Vec<Arc<str>>,
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
