//! What follows from a step of the slots, to be done after their mutex is unlocked.

use crate::engine::background_release::BackgroundRelease;
use crate::util::panics::contain;
use redis::Value;
use std::task::Waker;

#[derive(Default)]
pub(crate) struct Effects {
    /// Of callers whose requests are decided.
    pub(super) wakers: Vec<Waker>,
    /// With `true` if the claim owned its lock.
    pub(super) confirmed: Vec<(BackgroundRelease, bool)>,
    /// With `true` if the server may have executed them.
    pub(super) unconfirmed: Vec<(BackgroundRelease, bool)>,
}

impl Effects {
    pub(super) fn replied(&mut self, release: BackgroundRelease, reply: &Value) {
        match reply {
            Value::Int(owned) => self.confirmed.push((release, *owned == 1)),
            _ => self.unconfirmed.push((release, false)),
        }
    }

    /// Wakes the callers, and reports the releases.
    pub(crate) fn perform(&mut self) {
        for waker in self.wakers.drain(..) {
            // It belongs to the caller's executor, and may panic.
            contain(|| waker.wake());
        }
        for (release, was_owner) in self.confirmed.drain(..) {
            release.confirm(was_owner);
        }
        for (release, may_have_run) in self.unconfirmed.drain(..) {
            release.hand_over(may_have_run);
        }
    }
}
