//! What people see of the locks from outside, and do to them.

use crate::engine::operations::{Operations, Reading, StoredReport, Taken};
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::asks::ask;
use crate::engine::postgres::ping::ping;
use crate::engine::postgres::reports::{report, reports};
use crate::engine::postgres::take::take;
use crate::engine::postgres::view::{names, views};
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

impl Operations for PostgresEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(ping(&self.requests, deadline))
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        Box::pin(views(&self.requests, names, most, deadline))
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        Box::pin(names(&self.requests, prefix, most, reading.next()))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        text: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        Box::pin(async move { report(&self.requests, process, &text, deadline).await })
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        Box::pin(reports(&self.requests, of, reading))
    }

    fn listen(&self) {
        self.listener.keep();
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(ask(&self.requests, &self.address.schema, text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        Box::pin(take(&self.requests, name, token, at_least, deadline))
    }
}
