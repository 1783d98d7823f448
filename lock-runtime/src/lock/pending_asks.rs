//! The locks that operators want back.

use crate::lock::asks::RevokeRequest;
use crate::util::sync::Mutex;

/// The greatest number of asks that are kept until they are done. Further ones are dropped: whoever asks repeats it.
const MOST: usize = 64;

/// The asks that are to be done.
#[derive(Default)]
pub(crate) struct PendingAsks(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    asks: Vec<RevokeRequest>,
    /// A task does them.
    has_task: bool,
}

impl PendingAsks {
    /// Adds an ask. Returns `true` if a task has to be started.
    pub(crate) fn add(&self, ask: RevokeRequest) -> bool {
        let mut pending = self.0.lock();
        if pending.asks.len() < MOST && !pending.asks.contains(&ask) {
            pending.asks.push(ask);
        }
        !std::mem::replace(&mut pending.has_task, true)
    }

    /// Removes all asks. Returns `None` if there are none: then the task ends.
    pub(crate) fn take(&self) -> Option<Vec<RevokeRequest>> {
        let mut pending = self.0.lock();
        pending.has_task = !pending.asks.is_empty();
        pending.has_task.then(|| std::mem::take(&mut pending.asks))
    }
}
