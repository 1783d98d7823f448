//! What people see of the locks from outside, and do to them.

use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::operations::{Operations, ReportPace, StoredReport, Taken};
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

    fn view<'a>(&'a self, name: &'a str, most: usize, deadline: Instant) -> EngineFuture<'a, View> {
        let line = self.core.keys.line(name);
        Box::pin(self.core.run(deadline, move |core| core.view(line, most)))
    }

    fn names<'a>(
        &'a self,
        prefix: &'a str,
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Arc<str>>> {
        let ranges = self.core.keys.lines(prefix);
        let names = move |core: Arc<Core>| core.names(ranges, most, deadline);
        Box::pin(self.core.run(deadline, names))
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
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        match of.map(<[ProcessId]>::to_vec) {
            Some(of) => Box::pin(self.core.run(deadline, |core| core.reports_of(of))),
            None => Box::pin(self.core.run(deadline, move |core| core.reports(deadline))),
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
