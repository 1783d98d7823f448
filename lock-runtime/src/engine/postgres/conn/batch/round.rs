//! One round: the statements that one connection sends at once, and their outcome.

use crate::engine::error::EngineErrorKind;
use crate::engine::postgres::conn::batch::pending_tokens::PendingTokens;
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
    /// The server time after which the server ignores requests that acquire a lock.
    pub(crate) void_after: i64,
    pub(crate) pending: &'a PendingTokens,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
pub(crate) struct Outcome {
    /// The messages that are to be sent to other processes.
    pub(crate) messages: Vec<String>,
    /// The server's time, if a statement reported it.
    pub(crate) at: Option<i64>,
    /// The tokens whose acquisition or wait had a reply.
    pub(crate) settled: Vec<Token>,
    pub(crate) ends_connection: bool,
}

impl Outcome {
    /// Adds the columns of a reply that every statement may have.
    fn add(&mut self, rows: &[Row]) {
        for row in rows {
            let has = |name| row.columns().iter().any(|column| column.name() == name);
            if has("messages") {
                let messages: Vec<String> = row.try_get("messages").unwrap_or_default();
                self.messages.extend(messages);
            }
            if has("at") {
                self.at = self.at.max(row.try_get("at").ok());
            }
        }
    }
}

impl<'a> Round<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        schema: &'a Schema,
        void_after: i64,
        pending: &'a PendingTokens,
    ) -> Round<'a> {
        Round {
            connection,
            schema,
            void_after,
            pending,
            outcome: Mutex::default(),
        }
    }

    /// Returns `false` behind a pooler.
    pub(crate) fn is_own(&self) -> bool {
        self.connection.backend.is_own
    }

    /// Takes the outcome of the statements so far.
    pub(crate) fn take_outcome(&self) -> Outcome {
        std::mem::take(&mut *self.outcome())
    }

    /// Sends a statement, and returns its rows.
    pub(crate) async fn query(
        &self,
        statement: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let rows = self.send(statement, parameters).await;
        let rows = rows.map_err(|error| self.failure(&error))?;
        self.outcome().add(&rows);
        Ok(rows)
    }

    /// Sends a prepared statement, or an unnamed one, which works behind every pooler.
    async fn send(&self, statement: &str, parameters: &Parameters<'_>) -> Result<Vec<Row>, Error> {
        let Connection {
            client, prepared, ..
        } = self.connection;
        if let Some(prepared) = prepared.get(statement) {
            let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
            return client.query(prepared, &values).await;
        }
        let statement = self.schema.sql(statement);
        let parameters = parameters.iter().map(|(value, of)| (*value, of.clone()));
        collect(client.query_typed_raw(&statement, parameters).await?).await
    }

    /// Sends a statement for one lock, whose reply is an array of texts. Returns the server's time, and
    /// whether the lock was acquired, or was held.
    pub(crate) async fn query_one(
        &self,
        statement: &str,
        parameters: &Parameters<'_>,
    ) -> Result<(i64, bool), Failure> {
        let rows = self.query(statement, parameters).await?;
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        let reply: Vec<String> = row.try_get(0).map_err(|error| self.failure(&error))?;
        let invalid = || Failure::unexpected("an invalid array");
        let [at, count, messages @ ..] = &reply[..] else {
            return Err(invalid());
        };
        let at = at.parse().map_err(|_| invalid())?;
        let mut outcome = self.outcome();
        outcome.at = outcome.at.max(Some(at));
        outcome.messages.extend_from_slice(messages);
        Ok((at, count != "0"))
    }

    /// Returns the column of that name in the only row.
    pub(crate) fn column<'r, T: FromSql<'r>>(
        &self,
        rows: &'r [Row],
        name: &str,
    ) -> Result<T, Failure> {
        let row = rows.first().ok_or_else(|| Failure::unexpected("no row"))?;
        row.try_get(name).map_err(|error| self.failure(&error))
    }

    /// Records tokens whose request is over, if the reply proves that.
    pub(crate) fn settled<T>(
        &self,
        reply: &Result<T, Failure>,
        tokens: impl Iterator<Item = Token>,
    ) {
        let is_over = |failure: &Failure| failure.error.kind != EngineErrorKind::Indeterminate;
        if reply.as_ref().err().is_none_or(is_over) {
            self.outcome().settled.extend(tokens);
        }
    }

    /// Returns the failure of a statement of this round, and records whether it ends the connection.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        let failure = Failure::of(error);
        self.outcome().ends_connection |= failure.ends_connection;
        failure
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock()
    }
}

/// Returns the rows, or the error once the server is ready for the next statement. It sends the error before
/// it says so, and PgBouncer would take that for the end of a statement which follows at once: if the client
/// left then, another one would get the reply.
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
