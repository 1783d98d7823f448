//! The standard library's mutexes and flags, with points at which the scheduler can switch tasks.

use crate::util::shuttle::execution::running;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    turn: shuttle::sync::Mutex<()>,
    value: std::sync::Mutex<T>,
}

pub(crate) struct MutexGuard<'a, T> {
    // Dropped in this order.
    value: std::sync::MutexGuard<'a, T>,
    _turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
    _yield: YieldOnDrop,
}

/// Lets the scheduler switch tasks after a step, since it may not see the next one.
struct YieldOnDrop;

impl Drop for YieldOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            yield_point();
        }
    }
}

fn yield_point() {
    if running() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex {
            turn: shuttle::sync::Mutex::new(()),
            value: std::sync::Mutex::new(value),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // The task with the turn always finds the value unlocked, since all tasks share one thread.
        let turn = running().then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard {
            value: self.value.lock().unwrap_or_else(PoisonError::into_inner),
            _turn: turn,
            _yield: YieldOnDrop,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A count that is changed step by step.
pub(crate) struct AtomicU32(std::sync::atomic::AtomicU32);

impl AtomicU32 {
    pub(crate) fn new(value: u32) -> AtomicU32 {
        AtomicU32(std::sync::atomic::AtomicU32::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u32 {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: u32, order: Ordering) {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.store(value, order);
    }

    pub(crate) fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.fetch_add(value, order)
    }

    pub(crate) fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.fetch_sub(value, order)
    }

    pub(crate) fn fetch_update(
        &self,
        set: Ordering,
        fetch: Ordering,
        update: impl FnMut(u32) -> Option<u32>,
    ) -> Result<u32, u32> {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.fetch_update(set, fetch, update)
    }
}

#[derive(Default)]
pub(crate) struct AtomicBool(std::sync::atomic::AtomicBool);

impl AtomicBool {
    pub(crate) fn new(value: bool) -> AtomicBool {
        AtomicBool(std::sync::atomic::AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        yield_point();
        let _yield = YieldOnDrop;
        self.0.store(value, order);
    }
}
