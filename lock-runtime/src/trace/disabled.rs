//! Empty functions, for builds without the feature `tracing`.

use crate::error::LostCause;
use crate::event::LockEvent;
use crate::site::Purpose;
use crate::warning::Warning;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct LockSpan;

impl LockSpan {
    pub(crate) fn start(_: &str, _: &Purpose, _: Duration) -> LockSpan {
        LockSpan
    }

    pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    pub(crate) fn ended(&self, _: Duration) {}
}

pub(crate) struct WaitSpan;

impl WaitSpan {
    pub(crate) fn start(_: &str, _: &Purpose) -> WaitSpan {
        WaitSpan
    }
}

pub(crate) fn lost(_: Option<&LockSpan>, _: &str, _: LostCause) {}

pub(crate) fn gives_up(_: &str, _: &str, _: &str) {}

pub(crate) fn revokes(_: &str, _: &str, _: &str, _: &str, _: bool) {}

pub(crate) fn not_acquired(_: &LockEvent<'_>) {}

pub(crate) fn renewal_failed(_: &str, _: &dyn Display, _: Duration) {}

pub(crate) fn released_missing_lock(_: &str) {}

pub(crate) fn warnings_enabled() -> bool {
    false
}

pub(crate) fn unsafe_server(_: &Warning) {}

pub(crate) fn not_connected(_: &str, _: &dyn Display) {}

pub(crate) fn refused(_: &str, _: &dyn Display) {}

pub(crate) fn connected(_: &str) {}

pub(crate) fn master_followed(_: &dyn Display, _: &dyn Display, _: &dyn Display) {}

pub(crate) fn node_replaced(_: &dyn Display) {}

#[derive(Default)]
pub(crate) struct Failures(());

impl Failures {
    pub(crate) fn renewals<E: Display>(
        &self,
        _: impl FnOnce() -> Arc<str>,
        _: Option<(usize, &E)>,
    ) {
    }

    pub(crate) fn release(&self, _: Arc<str>, _: &str, _: &dyn Display) {}
}

#[derive(Default)]
pub(crate) struct Connection(());

impl Connection {
    pub(crate) fn failed(&mut self, _: &dyn Display, _: &str, _: &dyn Display) {}

    pub(crate) fn made(&mut self, _: &dyn Display, _: &str) {}
}
