//! The backends of earlier connections, which may still carry out requests that were sent to them.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::backend::Backend;
use crate::engine::postgres::wire::error::connecting;
use crate::engine::postgres::wire::values::Parameters;
use crate::util::time::{deadline_in, now, sleep_until};
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// How long a backend may take to end.
const PATIENCE: Duration = Duration::from_millis(100);
/// More are not remembered.
const MAX: usize = 100;

#[derive(Clone, Default)]
pub(crate) struct StaleBackends(Vec<Backend>);

impl StaleBackends {
    /// Adds the backend of a connection that has ended. The one behind a pooler serves others, and may not be
    /// ended.
    pub(crate) fn add(&mut self, backend: Backend) {
        if backend.is_own && self.0.len() < MAX {
            self.0.push(backend);
        }
    }

    /// Ends them, so that no request which was sent to them is carried out later. Returns `true` if all are
    /// gone; the others are ended another time. A role may end its own backends.
    pub(crate) async fn end(&mut self, client: &Client) -> Result<bool, EngineError> {
        let end = "SELECT count(pg_terminate_backend(a.pid)) FROM unnest($1, $2) e(pid, started) \
                   JOIN pg_stat_activity a ON a.pid = e.pid \
                   AND (extract(epoch FROM a.backend_start) * 1000000)::bigint = e.started";
        let pids: Vec<i32> = self.0.iter().map(|backend| backend.pid).collect();
        let started: Vec<i64> = self.0.iter().map(|backend| backend.started).collect();
        let until = deadline_in(PATIENCE);
        while !self.0.is_empty() {
            let parameters: &Parameters<'_> =
                &[(&pids, Type::INT4_ARRAY), (&started, Type::INT8_ARRAY)];
            let left = client.query_typed_one(end, parameters).await;
            match left.and_then(|row| row.try_get::<_, i64>(0)) {
                Ok(0) => self.0.clear(),
                Ok(_) if now() < until => sleep_until(deadline_in(PATIENCE / 20)).await,
                Ok(_) => return Ok(false),
                // The requests that were sent to them are void after a moment.
                Err(error) if error.as_db_error().is_some() => return Ok(false),
                Err(error) => return Err(connecting(&error)),
            }
        }
        Ok(true)
    }
}
