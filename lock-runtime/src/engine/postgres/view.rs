//! Reads who holds a lock and who waits for it.

use crate::engine::error::EngineError;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::statements::VIEW;
use crate::engine::postgres::wire::values::{duration, get, parameter};
use crate::engine::view::{View, ViewedHolder};
use crate::lock_info::LeaseInfo;
use tokio::time::Instant;
use tokio_postgres::types::Type;

/// Looks at a lock, and at its first waiters, `most` of them at the most. A holder whose lease has ended is one as long as
/// a transaction pins it.
pub(crate) async fn view(
    requests: &RequestSender,
    name: &str,
    most: usize,
    deadline: Instant,
) -> Result<View, EngineError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let parameters = vec![
        parameter(stored(name).into_owned(), Type::TEXT),
        parameter(most, Type::INT8),
    ];
    let row = requests.row(VIEW, parameters, None, deadline).await?;
    let holders: Vec<String> = get(&row, "holders")?;
    let rests: Vec<i64> = get(&row, "rests")?;
    let waiters: Vec<String> = get(&row, "waiters")?;
    let waiting: i64 = get(&row, "waiting")?;
    let holders = holders.into_iter().zip(rests);
    Ok(View {
        holders: holders.map(holder).collect(),
        waiters: waiters.into_iter().map(String::into).collect(),
        waiting: u64::try_from(waiting).unwrap_or(0),
    })
}

fn holder((token, micros): (String, i64)) -> ViewedHolder {
    ViewedHolder {
        token: token.into(),
        lease: LeaseInfo::Ends(duration(micros)),
        votes: None,
    }
}
