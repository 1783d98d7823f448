//! One round of statements: requests of one kind go out as one statement, and all statements at once.

use crate::engine::error::EngineErrorKind;
use crate::engine::postgres::error::Failure;
use crate::engine::postgres::gather::Gathered;
use crate::engine::postgres::queue::{Acquire, Release, Renew, Request, Single};
use crate::engine::postgres::recent::Released;
use crate::engine::postgres::schema::Schema;
use crate::engine::postgres::unanswered::Unanswered;
use crate::engine::token::Token;
use crate::util::join_all::join_all;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Error, Row};

pub(crate) struct Round<'a> {
    client: &'a Client,
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

/// The requests of one round, by statement.
#[derive(Default)]
struct Sorted {
    told: Vec<String>,
    releases: Vec<Release>,
    acquires: BTreeMap<i32, Vec<Acquire>>,
    renewals: BTreeMap<i32, Vec<Renew>>,
    singles: Vec<Single>,
}

/// The values of a statement's parameters, with their types.
pub(crate) type Parameters<'a> = [(&'a (dyn ToSql + Sync), Type)];

type Part<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

impl<'a> Round<'a> {
    pub(crate) fn new(
        client: &'a Client,
        schema: &'a Schema,
        void_after: i64,
        unanswered: &'a Unanswered,
    ) -> Round<'a> {
        Round {
            client,
            schema,
            void_after,
            unanswered,
            outcome: Mutex::default(),
        }
    }

    /// Sends all requests, renewals and releases first, and delivers the replies. Dropping the future leaves the requests
    /// unanswered.
    pub(crate) async fn run(&self, requests: Vec<Request>) {
        let mut sorted = Sorted::default();
        for request in requests {
            match request {
                Request::Tell(told) => sorted.told.extend(told),
                Request::Release(it) => sorted.releases.push(it),
                Request::Acquire(it) => sorted.acquires.entry(it.replicas).or_default().push(it),
                Request::Renew(it) => sorted.renewals.entry(it.replicas).or_default().push(it),
                Request::Single(it) => sorted.singles.push(it),
            }
        }
        let mut parts: Vec<Part<'_>> = Vec::new();
        // They wait for no other request, and the others may.
        parts.extend(sorted.renewals.into_values().map(|it| self.gather(it)));
        if !sorted.told.is_empty() {
            parts.push(Box::pin(self.tell(sorted.told)));
        }
        if !sorted.releases.is_empty() {
            parts.push(self.gather(sorted.releases));
        }
        parts.extend(sorted.acquires.into_values().map(|it| self.gather(it)));
        for single in sorted.singles {
            parts.push(Box::pin(self.single(single)));
        }
        join_all(parts).await;
    }

    /// Returns what has come of the requests so far.
    pub(crate) fn take_outcome(&self) -> Outcome {
        std::mem::take(&mut *self.lock())
    }

    /// In a transaction of its own: a transaction that notifies keeps others that do waiting until it is flushed, and
    /// this one writes nothing.
    async fn tell(&self, told: Vec<String>) {
        let statement = "SELECT pg_notify(split_part(t, ' ', 1), substr(t, strpos(t, ' ') + 1)) \
                         FROM unnest($1) t";
        // A waiter that is not told asks.
        let _ = self.query(statement, &[(&told, Type::TEXT_ARRAY)]).await;
    }

    /// Sends requests of one kind as one statement; or one by one, if one of them may be the reason that they fail.
    fn gather<'b, G: Gathered + 'b>(&'b self, requests: Vec<G>) -> Part<'b> {
        Box::pin(async move {
            let answers = G::send(self, &requests).await;
            self.answered(&answers, requests.iter().flat_map(G::gains).copied());
            match answers {
                Ok(answers) => {
                    for (request, answer) in requests.into_iter().zip(answers) {
                        request.answer(Ok(answer));
                    }
                }
                Err(failure) if failure.may_be_split && requests.len() > 1 => {
                    let parts = requests.into_iter().map(|one| self.gather(vec![one]));
                    join_all(parts).await;
                }
                Err(failure) => {
                    for request in requests {
                        request.answer(Err(failure.error.clone()));
                    }
                }
            }
        })
    }

    async fn single(&self, single: Single) {
        let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
        for (value, of) in &single.parameters {
            parameters.push((&**value, of.clone()));
        }
        let void_after = single.waits.map(|(_, until)| match until {
            Some(until) => until.min(self.void_after),
            None => self.void_after,
        });
        if void_after.is_some() {
            parameters.push((&void_after, Type::INT8));
        }
        let rows = self.query(&single.statement, &parameters).await;
        self.answered(&rows, single.waits.map(|(token, _)| token).into_iter());
        let _ = single.reply.send(rows.map_err(|failure| failure.error));
    }

    /// Sends an unnamed statement, which works behind every pooler.
    pub(crate) async fn query(
        &self,
        statement: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.schema.sql(statement);
        let rows = self.client.query_typed(&statement, parameters).await;
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
    fn answered<T>(&self, answer: &Result<T, Failure>, gains: impl Iterator<Item = Token>) {
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
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
