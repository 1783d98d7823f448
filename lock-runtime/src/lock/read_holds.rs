//! The read holds of this process, which other readers of the process join without a request to the server.

use crate::limit::Limit;
use crate::lock::hold::Hold;
use crate::options::LockOptions;
use crate::util::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The latest read hold of each lock.
#[derive(Default)]
pub(crate) struct ReadHolds(Mutex<Known>);

#[derive(Default)]
struct Known {
    holds: HashMap<Arc<str>, Weak<Hold>>,
    /// The number of holds at which those that have ended are removed.
    next_sweep: usize,
}

impl ReadHolds {
    /// Lets readers join a hold that was acquired at once, if it is one of a reader. A hold from the queue is not
    /// published: writers may wait behind it, which a newcomer must not pass.
    pub(crate) fn publish(&self, hold: &Arc<Hold>) {
        if hold.limit() != Limit::UNLIMITED {
            return;
        }
        let mut known = self.known();
        if known.holds.len() >= known.next_sweep {
            known.holds.retain(|_, hold| hold.strong_count() > 0);
            // A sweep costs as much as the insertions since the last one.
            known.next_sweep = 2 * known.holds.len() + 16;
        }
        known.holds.insert(hold.name.clone(), Arc::downgrade(hold));
    }

    /// Joins the read hold of that lock. Returns it with one more guard, or `None` if that is not possible.
    pub(crate) fn join(&self, name: &str, options: LockOptions) -> Option<Arc<Hold>> {
        let hold = self.known().holds.get(name)?.upgrade()?;
        hold.try_join(options).then_some(hold)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock()
    }
}
