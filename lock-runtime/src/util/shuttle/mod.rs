//! Replacements for threads, tasks and time, for a scheduler that explores the orders of their steps.

pub(crate) mod execution;
pub(crate) mod scheduler;
pub(crate) mod sync;
pub(crate) mod virtual_time;
