//! What people see of the locks from outside, and do to them.

use crate::engine::operations::{Operations, Reading, ReportPace, StoredReport, Taken};
use crate::engine::request::EngineFuture;
use crate::engine::token::Token;
use crate::engine::view::View;
use crate::engine::zookeeper::ZooKeeperEngine;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

impl Operations for ZooKeeperEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(self.ping(deadline))
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        Box::pin(self.views(names, most, deadline))
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        Box::pin(self.names(prefix, most, reading))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        Box::pin(self.report(process, report, deadline))
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        Box::pin(self.reports(of, reading))
    }

    // The log of transactions keeps every one.
    fn report_pace(&self) -> ReportPace {
        ReportPace::RARE
    }

    fn shown_as(&self, token: Token) -> Token {
        self.claims.shown_as(token)
    }

    fn listen(&self) {
        self.listen();
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(self.ask(text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        Box::pin(self.take(name, token, at_least, deadline))
    }
}
