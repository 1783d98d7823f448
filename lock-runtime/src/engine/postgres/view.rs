//! Reads who holds a lock and who waits for it, and which locks there are.

use crate::engine::error::EngineError;
use crate::engine::operations::Reading;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::keys::{escaped, original, stored};
use crate::engine::postgres::wire::statements::{NAMES, VIEWS};
use crate::engine::postgres::wire::values::{duration, get, parameter};
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use std::sync::Arc;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

impl PostgresEngine {
    /// Looks at locks, and at their first waiters, `most` of them at the most. A holder whose lease has ended
    /// is one as long as a transaction pins it.
    pub(crate) async fn views(
        &self,
        names: &[Arc<str>],
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<View>, EngineError> {
        let names = names.iter().map(|name| stored(name).into_owned());
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let parameters = vec![
            parameter(names.collect::<Vec<_>>(), Type::TEXT_ARRAY),
            parameter(most, Type::INT8),
        ];
        let rows = self
            .requests
            .rows(VIEWS, parameters, None, deadline)
            .await?;
        rows.iter().map(view).collect()
    }
}

fn view(row: &Row) -> Result<View, EngineError> {
    let holders: Vec<String> = get(row, "holders")?;
    let rests: Vec<i64> = get(row, "rests")?;
    let waiters: Vec<String> = get(row, "waiters")?;
    let waiting: i64 = get(row, "waiting")?;
    let holders = holders.into_iter().zip(rests);
    Ok(View {
        holders: holders.map(holder).collect(),
        waiters: waiters.into_iter().map(String::into).collect(),
        waiting: u64::try_from(waiting).unwrap_or(0),
    })
}

impl PostgresEngine {
    /// Returns the names of locks that begin so, `most` of them at the most. Of a long one it is another name
    /// of the same lock, with the same beginning.
    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        reading: Reading,
    ) -> Result<Vec<Arc<str>>, EngineError> {
        let parameters = vec![
            parameter(escaped(prefix).into_owned(), Type::TEXT),
            parameter(i64::try_from(most).unwrap_or(i64::MAX), Type::INT8),
        ];
        let rows = self
            .requests
            .rows(NAMES, parameters, None, reading.next())
            .await?;
        let names = rows.iter().map(|row| get(row, "name").map(original));
        names.map(|name| name.map(Arc::from)).collect()
    }
}

fn holder((token, micros): (String, i64)) -> ViewedHolder {
    ViewedHolder {
        token: token.into(),
        lease: LeaseInfo::Ends(duration(micros)),
        votes: None,
    }
}
