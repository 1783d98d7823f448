//! The process of the server behind a connection.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::conn::pooler;
use crate::engine::postgres::wire::error::connecting;
use tokio_postgres::{Client, Error, Row};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backend {
    pub(crate) pid: i32,
    /// When it started, in microseconds.
    pub(crate) started: i64,
    /// `false` if it is that of a pooler, and serves others.
    pub(crate) is_own: bool,
    /// The server's time while the connection was made.
    pub(crate) at: i64,
}

impl Backend {
    /// Asks the server. Fails if it is too old, or is no PostgreSQL, or a pooler's backend is not fit for
    /// locks.
    pub(crate) async fn of(client: &Client) -> Result<Backend, EngineError> {
        let query = include_str!("../sql/backend.sql");
        let row = client.query_typed_one(query, &[]).await;
        let found = row.and_then(|row| Found::read(&row));
        let found = found.map_err(|error| connecting(&error))?;
        found.check_version()?;
        let is_own = !pooler::is_between(client, found.pid).await;
        // A connection of its own sets that itself.
        if !is_own {
            found.check_isolation()?;
        }
        Ok(Backend {
            pid: found.pid,
            started: found.started,
            is_own,
            at: found.at,
        })
    }
}

struct Found {
    pid: i32,
    started: i64,
    at: i64,
    version_number: i32,
    version: String,
    isolation: String,
    role: String,
}

impl Found {
    fn read(row: &Row) -> Result<Found, Error> {
        Ok(Found {
            pid: row.try_get(0)?,
            started: row.try_get(1)?,
            at: row.try_get(2)?,
            version_number: row.try_get(3)?,
            version: row.try_get(4)?,
            isolation: row.try_get(5)?,
            role: row.try_get(6)?,
        })
    }

    fn check_version(&self) -> Result<(), EngineError> {
        if self.version_number >= 120_000 && self.version.starts_with("PostgreSQL") {
            return Ok(());
        }
        let version: String = self.version.chars().take(80).collect();
        Err(rejected(format!(
            "the server is `{version}`; locks need PostgreSQL 12 or newer"
        )))
    }

    fn check_isolation(&self) -> Result<(), EngineError> {
        let Found {
            isolation, role, ..
        } = self;
        if isolation == "read committed" {
            return Ok(());
        }
        Err(rejected(format!(
            "behind a pooler the role `{role}` has the isolation level `{isolation}`, and locks need `read \
             committed`; run `ALTER ROLE \"{role}\" SET default_transaction_isolation = 'read committed'`, and let \
             the pooler connect again"
        )))
    }
}

fn rejected(reason: String) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, reason)
}
