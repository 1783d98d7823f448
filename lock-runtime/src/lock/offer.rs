//! A result that a waiting caller is offered. Until the caller picks it up, the offer can be withdrawn.

use crate::util::panics::contain;
use crate::util::sync::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// A guard that its caller has not picked up yet.
pub(crate) trait Offered: Send + Sync {
    /// Withdraws the offer if its time is over. Returns the end of its time otherwise.
    fn expire(&self, now: Instant) -> Option<Instant>;

    /// Withdraws the offer: the caller no longer gets the guard, and waits again.
    fn withdraw(&self);
}

/// An offer, and the end of its time.
pub(crate) struct OpenOffer {
    pub(crate) until: Instant,
    pub(crate) offered: Arc<dyn Offered>,
}

/// The place of the result, which either the caller or the withdrawal takes.
struct Offer<T>(Mutex<Stage<T>>);

enum Stage<T> {
    Awaited(Option<Waker>),
    Made(T),
    /// Picked up, withdrawn, or no longer awaited.
    Over,
}

/// Makes the offer. Dropping it instead withdraws it.
pub(crate) struct Offerer<T>(Arc<Offer<T>>);

/// Picks the result up; resolves to `None` if the offer was withdrawn. Dropping it drops the result.
pub(crate) struct Pickup<T>(Arc<Offer<T>>);

pub(crate) fn offer<T>() -> (Offerer<T>, Pickup<T>) {
    let offer = Arc::new(Offer(Mutex::new(Stage::Awaited(None))));
    (Offerer(offer.clone()), Pickup(offer))
}

impl<T> Offer<T> {
    /// Ends the wait with `stage`, and wakes the caller. Returns it if the wait was over before.
    fn settle(&self, stage: Stage<T>) -> Option<Stage<T>> {
        let mut current = self.stage();
        let Stage::Awaited(waker) = &mut *current else {
            return Some(stage);
        };
        let waker = waker.take();
        *current = stage;
        drop(current);
        // It belongs to the caller's executor, and may panic.
        waker.and_then(|waker| contain(|| waker.wake()));
        None
    }

    /// Ends the offer. Drop what it returns outside the mutex: a guard hands its lock on.
    fn end(&self) -> Stage<T> {
        std::mem::replace(&mut self.stage(), Stage::Over)
    }

    fn stage(&self) -> MutexGuard<'_, Stage<T>> {
        self.0.lock()
    }
}

impl<T: Send> Offered for Offer<T> {
    fn expire(&self, _: Instant) -> Option<Instant> {
        self.withdraw();
        None
    }

    fn withdraw(&self) {
        if self.settle(Stage::Over).is_some() {
            drop(self.end());
        }
    }
}

impl<T> Offerer<T> {
    /// Offers the result. Returns it if the caller no longer waits, or the offer was withdrawn.
    pub(crate) fn make(self, result: T) -> Option<T> {
        match self.0.settle(Stage::Made(result)) {
            Some(Stage::Made(result)) => Some(result),
            _ => None,
        }
    }
}

impl<T: Send + 'static> Offerer<T> {
    /// Returns the offer, to be withdrawn if its time is over.
    pub(crate) fn offered(&self) -> Arc<dyn Offered> {
        self.0.clone()
    }
}

impl<T> Drop for Offerer<T> {
    fn drop(&mut self) {
        self.0.settle(Stage::Over);
    }
}

impl<T> Future for Pickup<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let waker = context.waker().clone();
        let mut stage = self.0.stage();
        let _before = match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Made(result) => return Poll::Ready(Some(result)),
            Stage::Over => return Poll::Ready(None),
            Stage::Awaited(before) => before,
        };
        *stage = Stage::Awaited(Some(waker));
        // Before the old waker is dropped, which belongs to an executor.
        drop(stage);
        Poll::Pending
    }
}

impl<T> Drop for Pickup<T> {
    fn drop(&mut self) {
        drop(self.0.end());
    }
}
