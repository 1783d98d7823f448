//! What one process asks of all others, or recalls from one: a key that they watch.

use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::messages::{WatchCancel, WatchCommand, WatchCreate, WatchResponse};
use crate::engine::event::EngineEvent;
use crate::engine::operations::beginning;
use crate::engine::recall::Recall;
use crate::process::ProcessId;
use crate::util::join_all::join_all;
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;

/// The numbers of the watches; those of claims count from 1 on.
const ASKS: i64 = i64::MAX;
const RECALLS: i64 = i64::MAX - 1;

/// Returns the watches with which each connection begins. They report what is written from then on, and not
/// again what an earlier one has reported; what is written between the two is lost.
pub(crate) fn watches(keys: &Keys, process: ProcessId) -> [WatchCreate; 2] {
    [(keys.asks(), ASKS), (keys.recalls(process), RECALLS)].map(|(key, watch_id)| WatchCreate {
        key,
        watch_id,
        ..WatchCreate::default()
    })
}

/// Returns whether the message says that this process hears recalls; `None` if it is about another watch.
pub(crate) fn hears_recalls(message: &WatchResponse) -> Option<bool> {
    (message.watch_id == RECALLS).then_some(!message.canceled)
}

impl EtcdEngine {
    /// Sends a text to all processes. Every connection listens: a watch costs nothing while no process asks.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let text = Bytes::copy_from_slice(text.as_bytes());
        self.put(self.core.keys.asks(), text, deadline).await
    }

    /// Each is a transaction of its own, as one puts a key once.
    pub(crate) async fn recall(
        &self,
        from: ProcessId,
        recalls: &[Recall],
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let key = self.core.keys.recalls(from);
        let puts = recalls.iter();
        let puts = puts.map(|it| self.put(key.clone(), it.to_string().into(), deadline));
        join_all(puts).await.into_iter().collect()
    }

    /// Writes a text that is of no use from then on, and ends with the epoch.
    async fn put(&self, key: Bytes, text: Bytes, deadline: Instant) -> Result<(), EngineError> {
        let put = |core: Arc<Core>| async move { core.put_in_epoch(key, text).await };
        self.core.run(deadline, put).await
    }
}

impl Core {
    /// Passes on what others ask. Returns `false` if another watch reports something.
    pub(crate) fn on_asked(&self, message: &WatchResponse) -> bool {
        let is_recall = message.watch_id == RECALLS;
        if !is_recall && message.watch_id != ASKS {
            return false;
        }
        let written = message.events.iter().filter(|event| event.kind == 0);
        for entry in written.filter_map(|event| event.kv.as_ref()) {
            let text = beginning(&entry.value);
            let event = match is_recall {
                true => Recall::parse(&text).map(EngineEvent::Recalled),
                false => Some(EngineEvent::Asked(text)),
            };
            event.into_iter().for_each(|event| (self.handler)(event));
        }
        if is_recall && message.canceled {
            // Recalls may have been missed.
            (self.handler)(EngineEvent::Resubscribed);
        }
        // Unless the history was compacted, the server has refused the watch: the user has no right to the
        // key.
        if message.canceled
            && message.compact_revision > 0
            && let Some(connection) = self.client.present()
        {
            let watch_id = message.watch_id;
            connection.watch(WatchCommand::Cancel(WatchCancel { watch_id }));
            let own = self.client.connector.own.iter();
            let again = own.filter(|it| it.watch_id == watch_id);
            again.for_each(|it| connection.watch(WatchCommand::Create(it.clone())));
        }
        true
    }
}
