//! The reports of processes: a hash of their reports, and beside it the times at which they were stored.

use crate::engine::error::EngineError;
use crate::engine::operations::{
    MAX_REPORTS, MAX_TEXT, REPORT_TTL, Reading, StoredReport, beginning,
};
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::milliseconds;
use crate::process::ProcessId;
use redis::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The greatest number of reports that one request reads.
const A_PAGE: usize = 100;

/// A process, its report, and the milliseconds since it was stored. Another client may have written any
/// bytes.
type Row = (Vec<u8>, Vec<u8>, u64);

impl RedisEngine {
    /// Stores a report in place of the process's earlier one.
    pub(crate) async fn report(
        &self,
        process: ProcessId,
        report: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let keys = self.keys.reports();
        let (script, of) = (&self.scripts.report, (&*keys[0], 2));
        let stored = self.eval(Via::IoThread, script, of, deadline, |command| {
            command
                .arg(&keys)
                .arg(process.to_string())
                .arg(&*report)
                .arg(milliseconds(REPORT_TTL));
        });
        stored.await.map(|_: Value| ())
    }

    /// Returns the reports of these processes, or the latest of all.
    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        for from in (0..MAX_REPORTS).step_by(A_PAGE) {
            let ids = of.map(|ids| ids.iter().skip(from).take(A_PAGE).copied());
            let ids = ids.map(Vec::from_iter);
            if ids.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
            let ids = ids.unwrap_or_default();
            let (listed, rows) = self.page(from, &ids, reading.next()).await?;
            let stored = rows.into_iter().filter_map(parse);
            // A report that is stored meanwhile moves others to the next page.
            found.extend(stored.filter(|report| seen.insert(report.process)));
            if listed < A_PAGE {
                break;
            }
        }
        Ok(found)
    }

    /// Returns the number of processes that a page lists, and their reports. The page is that of the `ids`,
    /// or without any the one that follows the latest `from`.
    async fn page(
        &self,
        from: usize,
        ids: &[ProcessId],
        deadline: Instant,
    ) -> Result<(usize, Vec<Row>), EngineError> {
        let keys = self.keys.reports();
        let (script, of) = (&self.scripts.reports, (&*keys[0], 2));
        let page = self.eval(Via::IoThread, script, of, deadline, |command| {
            command
                .arg(&keys)
                .arg(milliseconds(REPORT_TTL))
                .arg(MAX_TEXT)
                .arg(from)
                .arg(A_PAGE);
            for id in ids {
                command.arg(id.to_string());
            }
        });
        page.await
    }
}

fn parse((process, text, age): Row) -> Option<StoredReport> {
    Some(StoredReport {
        process: ProcessId::parse(str::from_utf8(&process).ok()?)?,
        text: beginning(&text),
        age: Some(Duration::from_millis(age)),
        revision: 0,
    })
}
