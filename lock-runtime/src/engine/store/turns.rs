//! Requests of this process for one lock take turns: of several at once, all but one would find a conflict,
//! and try again.

use crate::util::io_thread::IoThread;
use crate::util::sync::Mutex;
use crate::util::time::deadline_in;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// How long a request waits for those before it.
const LONGEST: Duration = Duration::from_millis(100);
/// From how many locks on those are looked for that are not in use.
const MANY: usize = 256;

/// The locks for which there are requests, and some for which there were.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<Arc<str>, Weak<AsyncMutex<()>>>>);

impl Turns {
    /// Waits until no other request for that lock is under way, but not for long: its caller may not poll it
    /// again. Together they are slower, and not wrong.
    pub(crate) async fn take(&self, io: IoThread, name: &Arc<str>) -> Option<OwnedMutexGuard<()>> {
        let turn = self.of(name);
        if let Ok(taken) = turn.clone().try_lock_owned() {
            return Some(taken);
        }
        let taken = io.timeout_at(deadline_in(LONGEST), turn.lock_owned());
        taken.await.ok()
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
