//! The state of one token at each member.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, MutexGuard};

/// Per-member state of one token: whether the member may hold it, and a lock that serializes requests, so
/// that each request finds the effects of the previous one, and cleanup always runs last.
pub(crate) struct MemberStates {
    may_hold: Box<[Mutex<bool>]>,
    closed: AtomicBool,
}

impl MemberStates {
    pub(crate) fn new(count: usize) -> MemberStates {
        MemberStates {
            may_hold: (0..count).map(|_| Mutex::new(false)).collect(),
            closed: AtomicBool::new(false),
        }
    }

    /// Waits until a request about the token may be sent to a member; returns `None` if no more may be sent.
    pub(crate) async fn begin_request(&self, member: usize) -> Option<MutexGuard<'_, bool>> {
        let may_hold = self.may_hold[member].lock().await;
        (!self.closed.load(Ordering::SeqCst)).then_some(may_hold)
    }

    /// Prevents further requests about the token.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until the current request has ended, and returns `true` if the member may hold the token.
    pub(crate) async fn begin_cleanup(&self, member: usize) -> MutexGuard<'_, bool> {
        self.may_hold[member].lock().await
    }
}
