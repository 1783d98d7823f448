//! With which members something of a token may be.

use crate::engine::quorum::members::Members;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, MutexGuard};

/// Each member has one request for the token at a time, so that each finds what the one before it has
/// left, and nothing comes after what clears it away.
pub(crate) struct Footprint {
    there: Box<[Mutex<bool>]>,
    over: AtomicBool,
}

impl Footprint {
    pub(crate) fn new(members: &Members) -> Footprint {
        Footprint {
            there: (0..members.count()).map(|_| Mutex::new(false)).collect(),
            over: AtomicBool::new(false),
        }
    }

    /// Waits until a member may be sent something of the token; none if it must not any more.
    pub(crate) async fn enter(&self, member: usize) -> Option<MutexGuard<'_, bool>> {
        let there = self.there[member].lock().await;
        (!self.over.load(Ordering::SeqCst)).then_some(there)
    }

    /// No member is sent anything more of it.
    pub(crate) fn close(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// Waits until what is under way has ended, and says whether there is something to clear away.
    pub(crate) async fn leave(&self, member: usize) -> MutexGuard<'_, bool> {
        self.there[member].lock().await
    }

    /// Whether certainly nothing is there, nor on its way.
    pub(crate) fn is_clear(&self, member: usize) -> bool {
        let there = self.there[member].try_lock();
        there.is_ok_and(|there| !*there)
    }
}
