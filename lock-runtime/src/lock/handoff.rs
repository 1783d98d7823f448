//! Hands a lock to the next local waiter, or releases it.

use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::hold::Hold;
use crate::lock::local_queue::{LocalQueues, Waiter};
use crate::lock::shared::HoldObserver;
use crate::options::LockOptions;
use crate::trace::SpanHandle;
use crate::util::sync::AtomicBool;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The obligation to end a hold. Dropping it hands the lock to the next local waiter, or releases it in the
/// background.
pub(crate) struct HoldGuard {
    hold: Arc<Hold>,
    queues: Arc<LocalQueues<HoldGuard>>,
    /// Another guard owns the hold, or the server stores nothing of it any more.
    disarmed: AtomicBool,
}

impl HoldGuard {
    pub(crate) fn new(hold: Arc<Hold>, queues: Arc<LocalQueues<HoldGuard>>) -> HoldGuard {
        HoldGuard {
            hold,
            queues,
            disarmed: AtomicBool::new(false),
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Cancels the obligation to end the hold.
    pub(crate) fn disarm(&self) {
        self.disarmed.store(true, Ordering::Release);
    }

    fn is_disarmed(&self) -> bool {
        self.disarmed.load(Ordering::Acquire)
    }

    /// Hands the lock to the next local waiter, or releases it and returns the result.
    pub(crate) async fn release_or_hand_off(&self) -> Result<(), LockError> {
        if self.is_disarmed() || self.try_hand_off() {
            return Ok(());
        }
        let released = self.hold.release().await;
        if !matches!(released, Err(LockError::Unavailable { .. })) {
            self.disarm();
        }
        released
    }

    fn try_hand_off(&self) -> bool {
        let handed_off = hand_off(&self.queues, &self.hold);
        if handed_off {
            self.disarm();
        }
        handed_off
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        if !self.is_disarmed() && !self.try_hand_off() {
            self.hold.release_in_background();
        }
    }
}

impl HoldObserver for LocalQueues<HoldGuard> {
    fn on_held(&self, name: &Arc<str>, token: Token) {
        self.set_holder(name, token);
    }

    fn on_vacated(&self, name: &str, token: Token) {
        self.clear_holder(name, token);
    }
}

/// Hands a held lock to the local waiter at the front, if the limits allow it. Returns `false` if no waiter
/// took it.
fn hand_off(queues: &Arc<LocalQueues<HoldGuard>>, hold: &Arc<Hold>) -> bool {
    let alone = hold.context().engine.is_alone();
    let may_take = |options, remote_waiters| {
        let remote_waiters = if alone { Some(false) } else { remote_waiters };
        hold.try_reassign(options, remote_waiters)
    };
    while let Some(waiter) = queues.pop_front_if(&hold.name, may_take) {
        if deliver(queues, waiter, hold) {
            return true;
        }
    }
    false
}

/// Delivers a lock that the server has just granted to the local waiter at the front. `activate` returns its
/// hold, or `None` if the lock does not fit that waiter's options. Returns `false` if no waiter took it.
pub(crate) fn grant_to_front(
    queues: &Arc<LocalQueues<HoldGuard>>,
    name: &str,
    activate: impl Fn(LockOptions) -> Option<Arc<Hold>>,
) -> bool {
    loop {
        let Some(waiter) = queues.pop_front(name) else {
            return false;
        };
        let Some(hold) = activate(waiter.options()) else {
            queues.push_front(name, waiter);
            return false;
        };
        if deliver(queues, waiter, &hold) {
            return true;
        }
    }
}

/// Delivers a hold to a waiter. Returns `false` if the waiter no longer waits.
fn deliver(
    queues: &Arc<LocalQueues<HoldGuard>>,
    waiter: Waiter<HoldGuard>,
    hold: &Arc<Hold>,
) -> bool {
    // Ends the previous guard's span; the span of the new guard starts when its caller receives it.
    hold.set_span(SpanHandle::default());
    let guard = HoldGuard::new(hold.clone(), queues.clone());
    match waiter.deliver(Ok(guard)) {
        Some(guard) => {
            guard.disarm();
            false
        }
        None => true,
    }
}
