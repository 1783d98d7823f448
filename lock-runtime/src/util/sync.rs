//! Mutexes, flags and watched values. In tests, a scheduler can switch threads at each access.

#[cfg(test)]
pub(crate) use crate::util::shuttle::sync::{AtomicBool, Mutex, MutexGuard};
#[cfg(test)]
pub(crate) use crate::util::shuttle::watch;
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};
#[cfg(not(test))]
pub(crate) use tokio::sync::watch;
