//! Waits for a lock: enters its queue on the server, stays in it, and leaves it.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::wire::encode::{milliseconds, set};
use crate::engine::redis::wire::error::{is_try_again, unexpected_reply};
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::timeouts::{TOMBSTONE_TTL, WAITER_TTL, WAKE_TTL};
use crate::engine::token::Token;
use crate::error::Holder;
use redis::{Cmd, Value};
use std::time::Duration;
use tokio::time::Instant;

impl RedisEngine {
    /// Enters the lock's queue, or stays in it; acquires the lock if it is free and no other claim is ahead.
    pub(crate) async fn enqueue(
        &self,
        claim: &Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        self.subscription.subscribed(deadline).await?;
        let valid_until = valid_until.map_or(0, |time| time.0.as_micros());
        let (script, keys) = (&self.scripts.wait, (&*claim.name, 4));
        let reply = self.eval(Via::IoThread, script, keys, deadline, |command| {
            self.queue_keys(command, &claim.name);
            command
                .arg(self.tombstone(claim))
                .arg(claim.token.encode(&mut [0; 37]))
                .arg(milliseconds(claim.ttl))
                .arg(&self.subscription.channel)
                .arg(WAITER_TTL.as_micros() as u64)
                .arg(WAKE_TTL.as_micros() as u64)
                .arg(valid_until as u64);
        });
        let reply: Vec<Value> = match reply.await {
            // While the slot moves between nodes there is no queue, but the lock can be acquired.
            Err(error) if is_try_again(&error) => match self.set_nx(claim, deadline).await? {
                true => return Ok(EnqueueReply::Granted(claim.ttl)),
                false => return Err(error),
            },
            reply => reply?,
        };
        match parse(&reply) {
            Some(reply) => {
                if let EnqueueReply::AlreadyHeld(_) = reply {
                    self.subscription.probe();
                }
                Ok(reply)
            }
            None => Err(unexpected_reply(format!("{reply:?} to a claim that waits"))),
        }
    }

    /// Acquires the lock if it is free, with the claim's token.
    async fn set_nx(&self, claim: &Claim, deadline: Instant) -> Result<bool, EngineError> {
        let (mut token, ttl) = ([0; 37], milliseconds(claim.ttl).to_string());
        let mut command = Cmd::new();
        command.arg(&set(&claim.name, claim.token.encode(&mut token), &ttl)[..]);
        let set = self.command(Via::IoThread, &claim.name, command, deadline);
        set.await.map(|set: Option<String>| set.is_some())
    }

    /// Leaves the queue, or releases the lock if it was granted meanwhile; returns `true` if it was. With
    /// `in_flight`, a request of the claim may still arrive, and must find the claim canceled.
    pub(crate) async fn cancel(
        &self,
        claim: &Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let tombstone_ttl = if in_flight {
            milliseconds(TOMBSTONE_TTL)
        } else {
            0
        };
        let absent_key = self.keys.absent_key(&claim.name);
        let keys = (&*claim.name, 4 + absent_key.iter().count());
        let script = &self.scripts.cancel;
        let held = self.eval(Via::IoThread, script, keys, deadline, |command| {
            self.queue_keys(command, &claim.name);
            command
                .arg(self.tombstone(claim))
                .arg(&absent_key)
                .arg(claim.token.encode(&mut [0; 37]))
                .arg(tombstone_ttl);
        });
        held.await.map(|held: u8| held == 1)
    }
}

fn parse(reply: &[Value]) -> Option<EnqueueReply> {
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let numbers: Vec<u64> = reply.iter().map_while(number).collect();
    let sole = match reply.last()? {
        Value::BulkString(token) => Token::read(token),
        _ => None,
    };
    let holder = match reply.last()? {
        Value::Int(1) => Holder::NeverExpires,
        Value::Int(2) => Holder::ForeignValue,
        _ => sole.map(Token::holder).unwrap_or_default(),
    };
    Some(match numbers[..] {
        [0] => EnqueueReply::Stale,
        [3, left] => EnqueueReply::AlreadyHeld(Duration::from_millis(left)),
        [1, left] => EnqueueReply::Granted(Duration::from_millis(left)),
        [2, at, holder_ttl, ahead, length, ..] => EnqueueReply::Queued(QueueStatus {
            server_time: ServerTime(Duration::from_micros(at)),
            holder_ttl: Duration::from_millis(holder_ttl),
            position: ahead,
            has_others: length > 1,
            holder,
            sole,
            is_recalled: true,
            poll_in: None,
        }),
        _ => return None,
    })
}
