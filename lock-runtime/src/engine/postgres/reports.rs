//! What processes tell of themselves: a row for each.

use crate::engine::error::EngineError;
use crate::engine::operations::StoredReport;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::wire::statements::{REPORT, REPORTS};
use crate::engine::postgres::wire::values::{duration, parameter};
use crate::process::ProcessId;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// How much of a report is stored, and read, in bytes.
const MAX_LEN: usize = 16 * 1024;

/// Stores a report. The server stores no NUL.
pub(crate) async fn report(
    requests: &RequestSender,
    process: ProcessId,
    text: &str,
    deadline: Instant,
) -> Result<(), EngineError> {
    let parameters = vec![
        parameter(process.to_string(), Type::TEXT),
        parameter(beginning(text).replace('\0', " "), Type::TEXT),
    ];
    let row = requests.row(REPORT, parameters, None, deadline);
    row.await.map(drop)
}

/// Returns the reports of these processes, or of all.
pub(crate) async fn reports(
    requests: &RequestSender,
    of: Option<&[ProcessId]>,
    deadline: Instant,
) -> Result<Vec<StoredReport>, EngineError> {
    let of = of.map(|of| of.iter().map(ProcessId::to_string).collect::<Vec<_>>());
    let parameters = vec![parameter(of, Type::TEXT_ARRAY)];
    let rows = requests.rows(REPORTS, parameters, None, deadline).await?;
    Ok(rows.iter().filter_map(stored).collect())
}

/// Returns `None` for what is no report.
fn stored(row: &Row) -> Option<StoredReport> {
    let process = ProcessId::parse(row.try_get("id").ok()?)?;
    let text = beginning(row.try_get("report").ok()?).into();
    let age = row.try_get("age").ok().map(duration);
    Some(StoredReport { process, text, age })
}

fn beginning(text: &str) -> &str {
    let ends = (0..=text.len().min(MAX_LEN)).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}
