//! When each hold is due next.

use crate::lock::watchdog::renewable::Renewable;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::Instant;

/// The greatest number of vectors that are kept for later holds: most locks are released long before their
/// renewal.
const MAX_SPARE: usize = 256;

#[derive(Default)]
pub(super) struct Schedule {
    /// The holds that are due at the same instant, each at its [place](Renewable::place).
    pub(super) holds: BTreeMap<Instant, Vec<Arc<dyn Renewable>>>,
    /// Vectors of holds that were released, for those that come next.
    spare: Vec<Vec<Arc<dyn Renewable>>>,
    /// The instant at which the task wakes next.
    pub(super) next_wakeup: Option<Instant>,
    pub(super) closed: bool,
    /// When the last lease of those lost ends.
    pub(super) last_lease_end: Option<Instant>,
    /// All holds that existed when this was requested are canceled.
    pub(super) canceled: bool,
}

impl Schedule {
    pub(super) fn insert(&mut self, due: Instant, hold: Arc<dyn Renewable>) {
        let spare = || self.spare.pop().unwrap_or_else(|| Vec::with_capacity(1));
        let holds = self.holds.entry(due).or_insert_with(spare);
        hold.place().store(holds.len(), Ordering::Relaxed);
        holds.push(hold);
    }

    pub(super) fn remove(
        &mut self,
        due: Instant,
        hold: &dyn Renewable,
    ) -> Option<Arc<dyn Renewable>> {
        let Entry::Occupied(mut entry) = self.holds.entry(due) else {
            return None;
        };
        let (holds, place) = (entry.get_mut(), hold.place().load(Ordering::Relaxed));
        // Those that were due may have been taken, and others may be due at the same instant.
        let is_there = |it: &&Arc<dyn Renewable>| std::ptr::addr_eq(Arc::as_ptr(it), hold);
        holds.get(place).filter(is_there)?;
        let removed = holds.swap_remove(place);
        match holds.get(place) {
            Some(moved) => moved.place().store(place, Ordering::Relaxed),
            None if holds.is_empty() => {
                let holds = entry.remove();
                // A large one would keep its memory.
                if holds.capacity() <= 4 && self.spare.len() < MAX_SPARE {
                    self.spare.push(holds);
                }
            }
            None => {}
        }
        Some(removed)
    }
}
