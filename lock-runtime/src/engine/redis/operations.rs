//! What people see of the locks from outside, and do to them.

use crate::engine::operations::{Operations, Reading, StoredReport, Taken};
use crate::engine::redis::RedisEngine;
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

impl Operations for RedisEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(self.locks.ping(deadline))
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        Box::pin(self.locks.views(names, most, deadline))
    }

    fn has_index(&self) -> bool {
        false
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        Box::pin(self.locks.names(prefix, most, reading))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        Box::pin(async move { self.locks.report(process, &report, deadline).await })
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        Box::pin(self.locks.reports(of, reading))
    }

    fn listen(&self) {
        self.locks.listen();
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(self.locks.ask(text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        Box::pin(self.locks.take(name, token, at_least, deadline))
    }
}
