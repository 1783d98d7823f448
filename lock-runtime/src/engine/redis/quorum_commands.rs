//! What is asked of a deployment that is a member of a quorum.
//!
//! All of it goes over the I/O thread's connection, so that a request never comes after a later one.

use crate::engine::error::EngineError;
use crate::engine::member::{Look, Vote};
use crate::engine::redis::Redis;
use crate::engine::redis::commands::{Way, is_moving, milliseconds, nonsense};
use crate::engine::request::{ALIVE, Claim, WOKEN};
use crate::engine::token::Token;
use redis::Value;
use std::time::Duration;
use tokio::time::Instant;

impl Redis {
    /// Takes the lock if it is free, and leaves the queue with that.
    pub(crate) async fn vote(
        &self,
        claim: &Claim,
        place: Option<Token>,
        until: Instant,
    ) -> Result<Vote, EngineError> {
        let keys = (&*claim.name, if place.is_some() { 3 } else { 1 });
        let vote = self.call(Way::Io, &self.scripts.vote, keys, until, |command| {
            match place {
                Some(_) => self.queue_keys(command, claim),
                None => {
                    command.arg(&*claim.name);
                }
            }
            command
                .arg(claim.token.encode(&mut [0; 32]))
                .arg(milliseconds(claim.ttl));
            if let Some(place) = place {
                command.arg(place.encode(&mut [0; 32]));
            }
        });
        let vote: Vec<Value> = vote.await?;
        match &vote[..] {
            [Value::Int(1)] => Ok(Vote::Granted),
            [Value::Int(0), Value::Int(left), by] => Ok(Vote::Held {
                by: holder(by)?,
                left: duration(*left),
            }),
            _ => Err(nonsense(format!("{vote:?} to a claim"))),
        }
    }

    /// Stands in the queue, where the process hears of releases if it can.
    pub(crate) async fn look(&self, place: &Claim, until: Instant) -> Result<Look, EngineError> {
        self.grants.ready(until).await?;
        let keys = (&*place.name, 3);
        let look = self.call(Way::Io, &self.scripts.look, keys, until, |command| {
            self.queue_keys(command, place);
            command
                .arg(place.token.encode(&mut [0; 32]))
                .arg(milliseconds(place.ttl))
                .arg(&self.grants.channel)
                .arg(ALIVE.as_micros() as u64)
                .arg(WOKEN.as_micros() as u64);
        });
        let (left, by, ahead, length): (i64, Value, u64, u64) = look.await?;
        let by = holder(&by)?;
        Ok(Look {
            holder: (!by.is_empty()).then(|| (by, duration(left))),
            ahead,
            others: length > 1,
        })
    }

    /// Leaves the queue.
    pub(crate) async fn leave(&self, place: &Claim, until: Instant) -> Result<(), EngineError> {
        let nothing = self.names.nothing(&place.name);
        let keys = (&*place.name, 4 + nothing.iter().count());
        let left = self.call(Way::Io, &self.scripts.leave, keys, until, |command| {
            self.queue_keys(command, place);
            command
                .arg(self.tombstone(place))
                .arg(&nothing)
                .arg(place.token.encode(&mut [0; 32]))
                .arg(0);
        });
        left.await.map(|_: u8| ())
    }

    /// Frees the lock. If the claim held it, the first in the queue is told; if it was never had by a
    /// majority, it isn't, since nothing has changed for those who wait.
    pub(crate) async fn free(
        &self,
        claim: &Claim,
        held: bool,
        until: Instant,
    ) -> Result<bool, EngineError> {
        if held {
            match self.let_go(claim, until).await {
                Err(error) if is_moving(&error) => {}
                freed => return freed,
            }
        }
        let (script, keys) = (&self.scripts.free, (&*claim.name, 1));
        let freed = self.call(Way::Io, script, keys, until, |command| {
            command
                .arg(&*claim.name)
                .arg(claim.token.encode(&mut [0; 32]));
        });
        freed.await.map(|freed: u8| freed == 1)
    }

    async fn let_go(&self, claim: &Claim, until: Instant) -> Result<bool, EngineError> {
        let nothing = self.names.nothing(&claim.name);
        let keys = (&*claim.name, 3 + nothing.iter().count());
        let freed = self.call(Way::Io, &self.scripts.let_go, keys, until, |command| {
            self.queue_keys(command, claim);
            command.arg(&nothing).arg(claim.token.encode(&mut [0; 32]));
        });
        freed.await.map(|freed: u8| freed == 1)
    }

    /// Has no smaller fencing token given out here from now on.
    pub(crate) async fn store_fencing_token(
        &self,
        claim: &Claim,
        token: u64,
        until: Instant,
    ) -> Result<bool, EngineError> {
        let keys = (&*claim.name, 2);
        let stored = self.call(Way::Io, &self.scripts.store, keys, until, |command| {
            command
                .arg(&*claim.name)
                .arg(self.names.fence(&claim.name))
                .arg(claim.token.encode(&mut [0; 32]))
                .arg(token);
        });
        stored.await.map(|stored: u8| stored == 1)
    }
}

fn holder(value: &Value) -> Result<Box<[u8]>, EngineError> {
    match value {
        Value::BulkString(holder) => Ok(holder.as_slice().into()),
        _ => Err(nonsense(format!("{value:?} for a holder"))),
    }
}

fn duration(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default())
}
