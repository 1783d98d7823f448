//! Mutexes, flags and counts. In tests, a scheduler can switch threads at each access.

#[cfg(test)]
pub(crate) use crate::util::shuttle::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::MutexGuard;
#[cfg(not(test))]
use std::sync::PoisonError;
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32};

/// A mutex that a panic does not poison: no code of users runs under one.
#[cfg(not(test))]
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

#[cfg(not(test))]
impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
