//! The reports of processes: a row for each.

use crate::engine::error::EngineError;
use crate::engine::operations::{MAX_REPORTS, Reading, StoredReport, beginning};
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::wire::statements::{REPORT, REPORTS};
use crate::engine::postgres::wire::values::{duration, get, parameter};
use crate::process::ProcessId;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// The greatest number of reports that one request reads.
const A_PAGE: usize = 100;

impl PostgresEngine {
    /// Stores a report.
    pub(crate) async fn report(
        &self,
        process: ProcessId,
        text: Arc<str>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let parameters = vec![
            parameter(process.to_string(), Type::TEXT),
            parameter(text.to_string(), Type::TEXT),
        ];
        let row = self.requests.row(REPORT, parameters, None, deadline);
        row.await.map(drop)
    }

    /// Returns the reports of these processes, or of all.
    pub(crate) async fn reports(
        &self,
        of: Option<&[ProcessId]>,
        reading: Reading,
    ) -> Result<Vec<StoredReport>, EngineError> {
        let of = of.map(|of| of.iter().map(ProcessId::to_string).collect::<Vec<_>>());
        let (mut reports, mut last) = (Vec::new(), String::new());
        for _ in (0..MAX_REPORTS).step_by(A_PAGE) {
            let parameters = vec![
                parameter(of.clone(), Type::TEXT_ARRAY),
                parameter(last, Type::TEXT),
                parameter(A_PAGE as i64, Type::INT8),
            ];
            let rows = self
                .requests
                .rows(REPORTS, parameters, None, reading.next());
            let rows = rows.await?;
            reports.extend(rows.iter().filter_map(stored));
            match rows.get(A_PAGE - 1) {
                Some(row) => last = get(row, "id")?,
                None => break,
            }
        }
        Ok(reports)
    }
}

/// Returns `None` for what is no report.
fn stored(row: &Row) -> Option<StoredReport> {
    let process = ProcessId::parse(row.try_get("id").ok()?)?;
    let text = beginning(row.try_get::<_, &str>("report").ok()?.as_bytes());
    let age = row.try_get("age").ok().map(duration);
    Some(StoredReport {
        process,
        text,
        age,
        revision: 0,
    })
}
