//! What people see of the locks from outside, and do to them.

use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::operations::{Operations, Reading, ReportPace, StoredReport, Taken};
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use crate::process::ProcessId;
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;

impl Operations for EtcdEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(self.core.run(deadline, Core::ping))
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        let lines = names.iter().map(|name| self.core.keys.line(name));
        let lines: Vec<_> = lines.collect();
        Box::pin(self.core.run(deadline, move |core| core.views(lines, most)))
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        let ranges = self.core.keys.lines(prefix);
        let names = move |core: Arc<Core>| core.names(ranges, most, reading);
        Box::pin(self.core.run(reading.until, names))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        Box::pin(
            self.core
                .run(deadline, move |core| core.report(process, report)),
        )
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        match of.map(<[ProcessId]>::to_vec) {
            Some(of) => {
                let reports = move |core: Arc<Core>| core.reports_of(of, reading);
                Box::pin(self.core.run(reading.until, reports))
            }
            None => {
                let reports = move |core: Arc<Core>| core.reports(reading);
                Box::pin(self.core.run(reading.until, reports))
            }
        }
    }

    // Its history keeps what is overwritten, until it is compacted.
    fn report_pace(&self) -> ReportPace {
        ReportPace::RARE
    }

    // Every connection listens: a watch costs nothing while nobody asks.

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        let text = Bytes::copy_from_slice(text.as_bytes());
        Box::pin(self.core.run(deadline, |core| core.ask(text)))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        let (line, token) = (self.core.keys.line(name), Arc::from(token));
        let take = move |core: Arc<Core>| core.take(line, token, at_least);
        Box::pin(self.core.run(deadline, take))
    }
}
