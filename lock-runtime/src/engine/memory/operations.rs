//! Operations on a store, which replies at once.

use crate::engine::error::EngineError;
use crate::engine::memory::MemoryEngine;
use crate::engine::operations::{Reading, StoredReport, Taken};
use crate::engine::view::View;
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;

impl MemoryEngine {
    pub(crate) async fn ping(&self, _: Instant) -> Result<(), EngineError> {
        Ok(())
    }

    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        _: Instant,
    ) -> Result<Vec<View>, EngineError> {
        Ok(names
            .iter()
            .map(|name| self.store.view(name, most))
            .collect())
    }

    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        _: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        Ok(self.store.names(prefix, most))
    }

    pub(crate) async fn report(
        &self,
        process: ProcessId,
        report: Arc<str>,
        _: Instant,
    ) -> Result<(), EngineError> {
        let now = self.store.clock.now();
        self.store.reports.store(process, report, now);
        Ok(())
    }

    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        _: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let now = self.store.clock.now();
        Ok(self.store.reports.read(of, now))
    }

    pub(crate) async fn ask(&self, text: &str, _: Instant) -> Result<(), EngineError> {
        self.store.listeners.ask(text);
        Ok(())
    }

    pub(crate) async fn take(
        &self,
        name: &str,
        token: &str,
        at_least: u64,
        _: Instant,
    ) -> Result<Taken, EngineError> {
        Ok(self.store.take(name, token, at_least))
    }
}
