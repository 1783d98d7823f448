//! What people see of the locks from outside, and do to them.

use crate::engine::operations::{Operations, Reading, StoredReport, Taken};
use crate::engine::quorum::QuorumEngine;
use crate::engine::quorum::asks::{ask, listen};
use crate::engine::quorum::ping::ping;
use crate::engine::quorum::reports::{report, reports};
use crate::engine::quorum::take::take;
use crate::engine::quorum::view::{names, views};
use crate::engine::request::EngineFuture;
use crate::engine::view::View;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

impl Operations for QuorumEngine {
    fn ping(&self, deadline: Instant) -> EngineFuture<'_, ()> {
        Box::pin(ping(&self.members, deadline))
    }

    fn views<'a>(
        &'a self,
        names: &'a [Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<View>> {
        Box::pin(views(&self.members, names, most, deadline))
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
        Box::pin(names(&self.members, prefix, most, reading))
    }

    fn report<'a>(
        &'a self,
        process: ProcessId,
        told: Arc<str>,
        deadline: Instant,
    ) -> EngineFuture<'a, ()> {
        Box::pin(report(&self.members, process, told, deadline))
    }

    fn reports<'a>(
        &'a self,
        of: Option<&'a [ProcessId]>,
        reading: Reading,
    ) -> EngineFuture<'a, Vec<StoredReport>> {
        Box::pin(reports(&self.members, of, reading))
    }

    fn listen(&self) {
        listen(&self.members);
    }

    fn ask<'a>(&'a self, text: &'a str, deadline: Instant) -> EngineFuture<'a, ()> {
        Box::pin(ask(&self.members, text, deadline))
    }

    fn take<'a>(
        &'a self,
        name: &'a str,
        token: &'a str,
        at_least: u64,
        deadline: Instant,
    ) -> EngineFuture<'a, Taken> {
        let taken = take(
            self.members.clone(),
            name.into(),
            token.into(),
            at_least,
            deadline,
        );
        Box::pin(self.members.run_on_io_thread(taken))
    }
}
