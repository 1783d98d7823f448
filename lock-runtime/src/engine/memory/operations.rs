//! What people see of the locks from outside, and do to them.

use crate::engine::memory::{MemoryEngine, ready};
use crate::engine::operations::{Operations, Reading, StoredReport, Taken};
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

impl Operations for MemoryEngine {
    fn ping(&self, _: Instant) -> EngineFuture<'_, ()> {
        ready(())
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        _: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        let views = names.iter().map(|name| self.store.view(name, most));
        ready(views.collect())
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        _: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        ready(self.store.names(prefix, most))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        _: Instant,
    ) -> EngineFuture<'a, ()> {
        let now = self.store.clock.now();
        self.store.reports.store(process, report, now);
        ready(())
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        _: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        let now = self.store.clock.now();
        ready(self.store.reports.read(of, now))
    }

    fn ask<'a>(&'a self, text: &'a str, _: Instant) -> EngineFuture<'a, ()> {
        self.store.listeners.ask(text);
        ready(())
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        _: Instant,
    ) -> EngineFuture<'a, Taken> {
        ready(self.store.take(name, token, at_least))
    }
}
