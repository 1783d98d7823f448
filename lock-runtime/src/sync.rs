//! What threads share: the standard library's, but under test a scheduler may be put between them.

#[cfg(test)]
pub(crate) use crate::interleavings::sync::{AtomicBool, Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};
