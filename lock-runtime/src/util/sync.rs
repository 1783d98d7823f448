//! Mutexes and flags. In tests, a scheduler can switch threads at each access.

#[cfg(test)]
pub(crate) use crate::util::shuttle::sync::{AtomicBool, Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};
