//! Calls of the functions of the schema: each waits for its reply, until a deadline.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::postgres::names::stored;
use crate::engine::postgres::prepared::WAIT;
use crate::engine::postgres::queue::Queue;
use crate::engine::postgres::request::{
    Acquire, Parameter, Release, ReleaseReply, Renew, Reply, Request, Single,
};
use crate::engine::postgres::values::{
    duration, get, limit, micros, parameter, replicas, text, unexpected,
};
use crate::engine::request::{Attempt, Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::timeouts::NO_REPLY;
use crate::engine::timeouts::WAITER_TTL;
use crate::engine::token::Token;
use crate::error::Holder;
use crate::util::io_thread::IoThread;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(crate) struct Calls {
    pub(crate) io: IoThread,
    pub(crate) queue: Arc<Queue>,
}

impl Calls {
    /// Returns the number of locks acquired.
    pub(crate) async fn acquire(
        &self,
        attempt: &Attempt,
        token: Token,
        deadline: Instant,
    ) -> Result<usize, EngineError> {
        let request = |reply| {
            Request::Acquire(Acquire {
                names: attempt.names().map(|name| stored(name).into()).collect(),
                tokens: attempt.claims(token).map(|claim| claim.token).collect(),
                ttl: micros(attempt.ttl),
                replicas: replicas(attempt.replicas),
                reply,
            })
        };
        self.send(request, deadline).await
    }

    /// `leaves`: leaves the queue, too.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        leaves: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let request = |reply| release(claim, leaves, ReleaseReply::Caller(reply));
        self.send(request, deadline).await
    }

    /// Renews the locks in statements for one number of replicas each, at once.
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Vec<Result<bool, EngineError>> {
        let groups = claims.chunk_by(|one, other| one.replicas == other.replicas);
        let renewed = join_all(groups.map(async |claims| {
            let request = |reply| {
                Request::Renew(Renew {
                    names: claims.iter().map(|it| stored(&it.name).into()).collect(),
                    tokens: claims.iter().map(|claim| text(claim.token)).collect(),
                    ttls: claims.iter().map(|claim| micros(claim.ttl)).collect(),
                    replicas: replicas(claims.first().map_or(0, |claim| claim.replicas)),
                    reply,
                })
            };
            match self.send(request, deadline).await {
                Ok(renewed) => renewed.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); claims.len()],
            }
        }));
        renewed.await.into_iter().flatten().collect()
    }

    /// `channel`: where messages reach this process, if they do.
    pub(crate) async fn enqueue(
        &self,
        claim: &Claim,
        channel: Option<&str>,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        let parameters = vec![
            parameter(stored(&claim.name).into_owned(), Type::TEXT),
            parameter(text(claim.token), Type::TEXT),
            parameter(limit(claim.token), Type::INT4),
            parameter(micros(claim.ttl), Type::INT8),
            parameter(channel.map(str::to_owned), Type::TEXT),
            parameter(micros(WAITER_TTL), Type::INT8),
        ];
        let valid_until = valid_until.map(|until| micros(until.0));
        let waits = Some((claim.token, valid_until));
        let row = self.row(WAIT, parameters, waits, deadline).await?;
        let left = || get::<i64>(&row, "time_left").map(duration);
        match get::<i32>(&row, "answer")? {
            0 => Ok(EnqueueReply::Stale),
            1 => Ok(EnqueueReply::Granted(left()?)),
            2 => {
                // A process that hears no messages asks as often as the first does, and can't be told of others.
                let hears = channel.is_some();
                let ahead = u64::try_from(get::<i64>(&row, "ahead")?).unwrap_or_default();
                Ok(EnqueueReply::Queued(QueueStatus {
                    server_time: ServerTime(duration(get(&row, "at")?)),
                    holder_ttl: left()?,
                    position: if hears { ahead } else { 0 },
                    has_others: !hears || get(&row, "others")?,
                    holder: Holder::default(),
                }))
            }
            3 => Ok(EnqueueReply::AlreadyHeld(left()?)),
            other => Err(unexpected(&format!("`{other}`"))),
        }
    }

    /// Returns the fencing token, if the lock is held.
    pub(crate) async fn fence(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let parameters = vec![
            parameter(stored(&claim.name).into_owned(), Type::TEXT),
            parameter(text(claim.token), Type::TEXT),
        ];
        let statement = "SELECT distributed_lock.fence_1($1, $2) AS mark";
        let row = self.row(statement, parameters, None, deadline).await?;
        let mark: Option<i64> = get(&row, "mark")?;
        Ok(mark.and_then(|mark| u64::try_from(mark).ok()))
    }

    /// Returns the stored names of the locks, and the numbers of their holders if all are held.
    pub(crate) async fn numbers(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Option<(Vec<String>, Vec<i64>)>, EngineError> {
        let names: Vec<String> = claims.iter().map(|it| stored(&it.name).into()).collect();
        let tokens: Vec<String> = claims.iter().map(|claim| text(claim.token)).collect();
        let parameters = vec![
            parameter(names.clone(), Type::TEXT_ARRAY),
            parameter(tokens, Type::TEXT_ARRAY),
        ];
        let statement = "SELECT distributed_lock.numbers_1($1, $2) AS numbers";
        let row = self.row(statement, parameters, None, deadline).await?;
        let numbers: Option<Vec<i64>> = get(&row, "numbers")?;
        Ok(numbers.map(|numbers| (names, numbers)))
    }

    /// Returns for how long the token `to` holds the lock, if it does.
    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let parameters = vec![
            parameter(stored(&claim.name).into_owned(), Type::TEXT),
            parameter(text(claim.token), Type::TEXT),
            parameter(text(to), Type::TEXT),
            parameter(limit(to), Type::INT4),
            parameter(micros(claim.ttl), Type::INT8),
        ];
        let statement = "SELECT * FROM distributed_lock.downgrade_1($1, $2, $3, $4, $5)";
        let row = self.row(statement, parameters, None, deadline).await?;
        let left: Option<i64> = get(&row, "time_left")?;
        Ok(left.map(duration))
    }

    /// Calls a function that is not called for several requests at once, and returns its row.
    async fn row(
        &self,
        statement: &'static str,
        parameters: Vec<Parameter>,
        waits: Option<(Token, Option<i64>)>,
        deadline: Instant,
    ) -> Result<Row, EngineError> {
        let request = |reply| {
            Request::Single(Single {
                statement,
                parameters,
                waits,
                reply,
            })
        };
        let rows = self.send(request, deadline).await?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| unexpected("no row"))
    }

    /// Sends a request, and waits for the reply.
    async fn send<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.queue.push(request(reply));
        let words = match self.io.timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => format!("the connection broke, or there was {NO_REPLY}"),
            Err(_) => NO_REPLY.to_owned(),
        };
        Err(EngineError::new(EngineErrorKind::Indeterminate, words))
    }
}

/// `leaves`: leaves the queue, too.
pub(crate) fn release(claim: &Claim, leaves: bool, reply: ReleaseReply) -> Request {
    Request::Release(Release {
        name: stored(&claim.name).into(),
        token: claim.token,
        leaves,
        reply,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::time::deadline_in;
    use std::future::Future;
    use std::task::{Context, Waker};

    #[test]
    fn renewals_with_different_replicas_are_sent_at_once() {
        let io = IoThread::start().unwrap();
        let queue = Arc::default();
        let calls = Calls { io, queue };
        let claims = [1, 2].map(|replicas| Claim {
            name: "row".into(),
            token: Token::random(),
            ttl: Duration::from_secs(30),
            replicas,
        });
        let mut renew = Box::pin(calls.renew(&claims, deadline_in(Duration::from_secs(1))));
        let begun = renew.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(begun.is_pending());
        assert_eq!(calls.queue.take(9).len(), 2);
    }
}
