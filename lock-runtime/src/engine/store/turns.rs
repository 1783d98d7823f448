//! Requests of this process for one lock take turns: of several at once, all but one would find a conflict,
//! and try again.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::Instant;

/// From how many locks on those are looked for that are not in use.
const MANY: usize = 256;

/// The locks for which there are requests, and some for which there were.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Arc<str>, Weak<AsyncMutex<()>>>>);

impl Turns {
    /// Waits until no other request for that lock is under way.
    pub(crate) async fn take(
        &self,
        io: IoThread,
        name: &Arc<str>,
        deadline: Instant,
    ) -> Result<OwnedMutexGuard<()>, EngineError> {
        let turn = self.of(name).lock_owned();
        io.timeout_at(deadline, turn).await.map_err(|_| {
            let words = "other requests for the lock took all of the time";
            EngineError::new(EngineErrorKind::NotReady, words)
        })
    }

    fn of(&self, name: &Arc<str>) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(name).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= MANY && turns.len().is_power_of_two() {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(name.clone(), Arc::downgrade(&turn));
        turn
    }
}
