//! Mutexes, flags and counts. In tests, a scheduler can switch threads at each access.

#[cfg(test)]
pub(crate) use crate::util::shuttle::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};
