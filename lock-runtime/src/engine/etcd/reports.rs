//! The reports of processes: a key of each, which ends with the lease of its connection's epoch. So it is
//! kept alive without a request of its own, and stored again when there is another connection.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::EtcdEngine;
use crate::engine::etcd::lock::core::Core;
use crate::engine::etcd::wire::messages::{KeyValue, TxnRequest};
use crate::engine::etcd::wire::txn;
use crate::engine::operations::{MAX_REPORTS, Reading, StoredReport, beginning};
use crate::process::ProcessId;
use prost::bytes::Bytes;
use std::sync::Arc;
use tokio::time::Instant;

/// The greatest number of reports in one reply: a server stores no value of more than 1.5 MiB, unless it is
/// configured to.
const AT_ONCE: usize = 32;

impl EtcdEngine {
    pub(crate) async fn report(
        &self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        self.core
            .run(deadline, move |core| core.report(process, report))
            .await
    }

    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        match of.map(<[ProcessId]>::to_vec) {
            Some(of) => {
                let reports = move |core: Arc<Core>| core.reports_of(of, reading);
                self.core.run(reading.until, reports).await
            }
            None => {
                let reports = move |core: Arc<Core>| core.reports(reading);
                self.core.run(reading.until, reports).await
            }
        }
    }
}

impl Core {
    /// Stores a report in place of the last one.
    pub(crate) async fn report(
        self: Arc<Self>,
        process: ProcessId,
        report: Arc<str>,
    ) -> Result<(), EngineError> {
        self.own_report.set(process, report);
        self.store_report().await
    }

    /// Stores the last report again: it ends with the epoch before.
    pub(crate) fn on_new_epoch(self: Arc<Self>) {
        let io = self.client.io;
        // If it fails, the next report or the next connection follows.
        io.spawn_detached(async move { drop(self.store_report().await) });
    }

    /// Stores the last report, if there is one, in the present epoch.
    async fn store_report(&self) -> Result<(), EngineError> {
        let _turn = self.own_report.turn.lock().await;
        let Some((process, report)) = self.own_report.get() else {
            return Ok(());
        };
        let value = Bytes::copy_from_slice(report.as_bytes());
        let stored = self.put_in_epoch(self.keys.report(process), value).await;
        if stored
            .as_ref()
            .is_err_and(|error| error.kind == EngineErrorKind::Rejected)
        {
            self.own_report.forget();
        }
        stored
    }

    /// Reads the reports of these processes.
    pub(crate) async fn reports_of(
        self: Arc<Self>,
        processes: Vec<ProcessId>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let mut reports = Vec::new();
        for some in processes.chunks(AT_ONCE) {
            let keys = some.iter().map(|process| self.keys.report(*process));
            let read = TxnRequest {
                success: keys.map(txn::get).collect(),
                ..TxnRequest::default()
            };
            let read = self.reply_by(reading.next(), self.execute(read)).await?;
            let found = read.ranges().flatten();
            reports.extend(found.filter_map(|entry| self.stored(&entry)));
        }
        Ok(reports)
    }

    /// Reads the reports of all processes.
    pub(crate) async fn reports(
        self: Arc<Self>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let mut pages = self.pages(self.keys.reports(), false, reading);
        let mut reports = Vec::new();
        while reports.len() < MAX_REPORTS
            && let Some(page) = pages.next().await?
        {
            reports.extend(page.iter().filter_map(|entry| self.stored(entry)));
        }
        reports.truncate(MAX_REPORTS);
        Ok(reports)
    }

    fn stored(&self, entry: &KeyValue) -> Option<StoredReport> {
        Some(StoredReport {
            process: self.keys.reporter(&entry.key)?,
            text: beginning(&entry.value),
            age: None,
            revision: entry.mod_revision,
        })
    }
}
