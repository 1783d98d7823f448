//! What one process asks of all others: a key that they watch.

use crate::engine::error::EngineError;
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::messages::{WatchCancel, WatchCommand, WatchCreate, WatchResponse};
use crate::engine::event::EngineEvent;
use crate::engine::operations::beginning;
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;

/// The number of the watch; those of claims count from 1 on.
const WATCH: i64 = i64::MAX;

/// Returns the watch with which each connection begins. It reports what is asked from then on, and not again
/// what an earlier one has reported; what is asked between the two is lost.
pub(crate) fn watch(keys: &Keys) -> WatchCreate {
    WatchCreate {
        key: keys.asks(),
        watch_id: WATCH,
        ..WatchCreate::default()
    }
}

impl EtcdEngine {
    /// Sends a text to all processes. Every connection listens: a watch costs nothing while no process asks.
    pub(crate) async fn ask(&self, text: &str, deadline: Instant) -> Result<(), EngineError> {
        let text = Bytes::copy_from_slice(text.as_bytes());
        self.core.run(deadline, |core| core.ask(text)).await
    }
}

impl Core {
    /// Sends a text to all processes. Its key is of no use from then on, and ends with the epoch.
    pub(crate) async fn ask(self: Arc<Self>, text: Bytes) -> Result<(), EngineError> {
        self.put_in_epoch(self.keys.asks(), text).await
    }

    /// Passes on what others ask. Returns `false` if another watch reports something.
    pub(crate) fn on_asked(&self, message: &WatchResponse) -> bool {
        if message.watch_id != WATCH {
            return false;
        }
        let written = message.events.iter().filter(|event| event.kind == 0);
        for entry in written.filter_map(|event| event.kv.as_ref()) {
            (self.handler)(EngineEvent::Asked(beginning(&entry.value)));
        }
        // Unless the history was compacted, the server has refused the watch: the user has no right to the
        // key.
        if message.canceled
            && message.compact_revision > 0
            && let Some(connection) = self.client.present()
        {
            connection.watch(WatchCommand::Cancel(WatchCancel { watch_id: WATCH }));
            connection.watch(WatchCommand::Create(watch(&self.keys)));
        }
        true
    }
}
