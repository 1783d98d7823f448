//! The statements of one round, and what comes of them.

use crate::engine::error::EngineErrorKind;
use crate::engine::postgres::conn::batch::pending_tokens::Unanswered;
use crate::engine::postgres::conn::batch::recent_releases::Released;
use crate::engine::postgres::conn::connect::Connection;
use crate::engine::postgres::sql::schema::Schema;
use crate::engine::postgres::wire::error::Failure;
use crate::engine::postgres::wire::values::Parameters;
use crate::engine::token::Token;
use crate::util::sync::{Mutex, MutexGuard};
use futures_core::Stream;
use std::future::poll_fn;
use std::pin::pin;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Error, Row, RowStream};

pub(crate) struct Round<'a> {
    connection: &'a Connection,
    schema: &'a Schema,
    /// The server time after which the server ignores what would acquire a lock.
    pub(crate) void_after: i64,
    pub(crate) unanswered: &'a Unanswered,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
pub(crate) struct Outcome {
    /// The messages to be sent.
    pub(crate) told: Vec<String>,
    /// The server's time, if a statement reported it.
    pub(crate) at: Option<i64>,
    /// The locks that were released.
    pub(crate) released: Vec<Released>,
    /// The tokens whose acquisition or wait was answered.
    pub(crate) answered: Vec<Token>,
    pub(crate) ends_connection: bool,
}

impl<'a> Round<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        schema: &'a Schema,
        void_after: i64,
        unanswered: &'a Unanswered,
    ) -> Round<'a> {
        Round {
            connection,
            schema,
            void_after,
            unanswered,
            outcome: Mutex::default(),
        }
    }

    /// `false` behind a pooler.
    pub(crate) fn is_own(&self) -> bool {
        self.connection.backend.is_own
    }

    /// Returns what has come of the requests so far.
    pub(crate) fn take_outcome(&self) -> Outcome {
        std::mem::take(&mut *self.lock())
    }

    /// Sends a statement: a prepared one, or an unnamed one, which works behind every pooler.
    pub(crate) async fn query(
        &self,
        statement: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let Connection {
            client, prepared, ..
        } = self.connection;
        let rows = match prepared.get(statement) {
            Some(prepared) => {
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                client.query(prepared, &values).await
            }
            None => {
                let statement = self.schema.sql(statement);
                let parameters = parameters.iter().map(|(value, of)| (*value, of.clone()));
                match client.query_typed_raw(&statement, parameters).await {
                    Ok(stream) => collect(stream).await,
                    Err(error) => Err(error),
                }
            }
        };
        let rows = rows.map_err(|error| self.failed(&error))?;
        let mut outcome = self.lock();
        for row in &rows {
            let has = |name| row.columns().iter().any(|column| column.name() == name);
            if has("told") {
                let told: Vec<String> = row.try_get("told").unwrap_or_default();
                outcome.told.extend(told);
            }
            if has("at") {
                outcome.at = outcome.at.max(row.try_get("at").ok());
            }
        }
        drop(outcome);
        Ok(rows)
    }

    /// Sends a statement for one lock. Returns the server's time, and whether the lock was acquired, or was held.
    pub(crate) async fn query_one(
        &self,
        statement: &str,
        parameters: &Parameters<'_>,
    ) -> Result<(i64, bool), Failure> {
        let rows = self.query(statement, parameters).await?;
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        let answer: Vec<String> = row.try_get(0).map_err(|error| self.failed(&error))?;
        let invalid = || Failure::unexpected("an invalid answer");
        let [at, count, told @ ..] = &answer[..] else {
            return Err(invalid());
        };
        let at = at.parse().map_err(|_| invalid())?;
        let mut outcome = self.lock();
        outcome.at = outcome.at.max(Some(at));
        outcome.told.extend_from_slice(told);
        Ok((at, count != "0"))
    }

    /// Returns the column of that name in the only row.
    pub(crate) fn column<'r, T: FromSql<'r>>(
        &self,
        rows: &'r [Row],
        name: &str,
    ) -> Result<T, Failure> {
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        row.try_get(name).map_err(|error| self.failed(&error))
    }

    /// Records locks that were released.
    pub(crate) fn released(&self, released: impl Iterator<Item = Released>) {
        self.lock().released.extend(released);
    }

    /// Records the tokens whose requests are over.
    pub(crate) fn answered<T>(
        &self,
        answer: &Result<T, Failure>,
        gains: impl Iterator<Item = Token>,
    ) {
        let is_over = |failure: &Failure| failure.error.kind != EngineErrorKind::Indeterminate;
        if answer.as_ref().err().is_none_or(is_over) {
            self.lock().answered.extend(gains);
        }
    }

    pub(crate) fn failed(&self, error: &Error) -> Failure {
        let failure = Failure::of(error);
        self.lock().ends_connection |= failure.ends_connection;
        failure
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock()
    }
}

/// Returns the rows, or the error once the server is ready for the next statement. It sends the error before it says so,
/// and PgBouncer would take that for the end of a statement which follows at once: if the client left then, another one
/// would get the reply.
async fn collect(stream: RowStream) -> Result<Vec<Row>, Error> {
    let (mut stream, mut rows) = (pin!(stream), Ok(Vec::new()));
    while let Some(row) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        match (&mut rows, row) {
            (Ok(rows), Ok(row)) => rows.push(row),
            (Ok(_), Err(error)) => rows = Err(error),
            // The connection has broken.
            (Err(_), _) => break,
        }
    }
    rows
}
