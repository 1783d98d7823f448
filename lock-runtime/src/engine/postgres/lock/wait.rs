//! Enters the queue of a lock, and asks for the lock again while the claim waits there.

use crate::engine::error::EngineError;
use crate::engine::postgres::PostgresEngine;
use crate::engine::postgres::conn::batch::request::Wait;
use crate::engine::postgres::keys::stored;
use crate::engine::postgres::wire::statements::WAIT;
use crate::engine::postgres::wire::values::{
    duration, get, limit, micros, parameter, text, unexpected,
};
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::timeouts::{RECALLING, WAITER_TTL};
use crate::engine::token::Token;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

impl PostgresEngine {
    /// Enters the queue, or stays in it.
    pub(crate) async fn enqueue(
        &self,
        claim: &Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        let channel = self.listener.channel().await;
        let parameters = vec![
            parameter(stored(&claim.name).into_owned(), Type::TEXT),
            parameter(text(claim.token), Type::TEXT),
            parameter(limit(claim.token), Type::INT4),
            parameter(micros(claim.ttl), Type::INT8),
            parameter(channel.map(str::to_owned), Type::TEXT),
            parameter(micros(WAITER_TTL), Type::INT8),
        ];
        let waits = Some(Wait {
            token: claim.token,
            valid_until: valid_until.map(|until| micros(until.0)),
        });
        let row = self.requests.row(WAIT, parameters, waits, deadline).await?;
        parse(&row, channel.is_some())
    }
}

/// `hears`: messages reach this process. One that hears none asks as often as the first waiter does, and
/// assumes that others wait.
fn parse(row: &Row, hears: bool) -> Result<EnqueueReply, EngineError> {
    let left = || get::<i64>(row, "time_left").map(duration);
    match get::<i32>(row, "answer")? {
        0 => Ok(EnqueueReply::Stale),
        1 => Ok(EnqueueReply::Granted(left()?)),
        2 => {
            let holder: Option<String> = get(row, "holder")?;
            let sole = holder.and_then(|token| Token::parse(&token));
            let ahead = u64::try_from(get::<i64>(row, "ahead")?).unwrap_or_default();
            Ok(EnqueueReply::Queued(QueueStatus {
                server_time: ServerTime(duration(get(row, "at")?)),
                holder_ttl: left()?,
                position: if hears { ahead } else { 0 },
                has_others: !hears || get(row, "others")?,
                holder: sole.map(Token::holder).unwrap_or_default(),
                // The first ones recall, and the place may be another.
                sole: sole.filter(|_| ahead < RECALLING),
                is_recalled: false,
                poll_in: None,
            }))
        }
        3 => Ok(EnqueueReply::AlreadyHeld(left()?)),
        other => Err(unexpected(&format!("`{other}`"))),
    }
}
