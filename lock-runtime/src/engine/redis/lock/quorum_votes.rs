//! Votes in the elections of a quorum: what is done to a lock at one member.
//!
//! All of them use the I/O thread's connection, so that no request arrives after a later one.

use crate::engine::error::EngineError;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::conn::request::Via;
use crate::engine::redis::vote::{QueueObservation, Vote, VoteQueue};
use crate::engine::redis::wire::encode::milliseconds;
use crate::engine::redis::wire::error::{is_try_again, unexpected_reply};
use crate::engine::request::Claim;
use crate::engine::timeouts::{WAITER_TTL, WAKE_TTL};
use redis::Value;
use std::time::Duration;
use tokio::time::Instant;

impl RedisEngine {
    /// Acquires the lock if its holders allow that, and then leaves the queue.
    pub(crate) async fn vote(
        &self,
        claim: &Claim,
        queue: VoteQueue,
        deadline: Instant,
    ) -> Result<Vote, EngineError> {
        let queue_token = match queue {
            VoteQueue::Waits(token) => Some(Some(token)),
            // A reader passes no writer that waits.
            VoteQueue::Newcomer if !claim.token.limit().is_exclusive() => Some(None),
            VoteQueue::Newcomer | VoteQueue::Restored => None,
        };
        let keys = (&*claim.name, if queue_token.is_some() { 3 } else { 1 });
        let vote = self.eval(
            Via::IoThread,
            &self.scripts.vote,
            keys,
            deadline,
            |command| {
                match queue_token {
                    Some(_) => self.queue_keys(command, &claim.name),
                    None => {
                        command.arg(&*claim.name);
                    }
                }
                command
                    .arg(claim.token.encode(&mut [0; 37]))
                    .arg(milliseconds(claim.ttl));
                match queue_token {
                    Some(Some(token)) => {
                        command.arg(token.encode(&mut [0; 37]));
                    }
                    Some(None) => {
                        command.arg("");
                    }
                    None => {}
                }
            },
        );
        let vote: Vec<Value> = vote.await?;
        match &vote[..] {
            [Value::Int(1)] => Ok(Vote::Granted),
            [Value::Int(0), Value::Int(ttl), holder] => Ok(Vote::Held {
                holder: parse_holder(holder)?,
                ttl: parse_millis(*ttl),
            }),
            _ => Err(unexpected_reply(format!("{vote:?} to a claim"))),
        }
    }

    /// Enters the queue, or stays in it, and reports the state of the lock.
    pub(crate) async fn observe(
        &self,
        entry: &Claim,
        deadline: Instant,
    ) -> Result<QueueObservation, EngineError> {
        self.subscription.subscribed(deadline).await?;
        let keys = (&*entry.name, 3);
        let reply = self.eval(
            Via::IoThread,
            &self.scripts.observe,
            keys,
            deadline,
            |command| {
                self.queue_keys(command, &entry.name);
                command
                    .arg(entry.token.encode(&mut [0; 37]))
                    .arg(milliseconds(entry.ttl))
                    .arg(&self.subscription.channel)
                    .arg(WAITER_TTL.as_micros() as u64)
                    .arg(WAKE_TTL.as_micros() as u64);
            },
        );
        let (left, by, ahead, length): (i64, Value, u64, u64) = reply.await?;
        let by = parse_holder(&by)?;
        Ok(QueueObservation {
            holder: (!by.is_empty()).then(|| (by, parse_millis(left))),
            ahead,
            others: length > 1,
        })
    }

    /// Leaves the queue.
    pub(crate) async fn leave_queue(
        &self,
        entry: &Claim,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let absent_key = self.keys.absent_key(&entry.name);
        let keys = (&*entry.name, 4 + absent_key.iter().count());
        let left = self.eval(
            Via::IoThread,
            &self.scripts.leave_queue,
            keys,
            deadline,
            |command| {
                self.queue_keys(command, &entry.name);
                command
                    .arg(self.tombstone(entry))
                    .arg(&absent_key)
                    .arg(entry.token.encode(&mut [0; 37]))
                    .arg(0);
            },
        );
        left.await.map(|_: u8| ())
    }

    /// Releases the lock at this member. Notifies the first waiter if the claim held the lock; if it never
    /// had a majority, nothing has changed for the waiters.
    pub(crate) async fn withdraw(
        &self,
        claim: &Claim,
        held: bool,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        if held {
            let absent_key = self.keys.absent_key(&claim.name);
            let keys = (&*claim.name, 3 + absent_key.iter().count());
            let script = &self.scripts.release_and_notify;
            let freed = self.eval(Via::IoThread, script, keys, deadline, |command| {
                self.queue_keys(command, &claim.name);
                command
                    .arg(&absent_key)
                    .arg(claim.token.encode(&mut [0; 37]));
            });
            match freed.await {
                Err(error) if is_try_again(&error) => {}
                freed => return freed.map(|freed: u8| freed == 1),
            }
        }
        self.delete_if_owner(claim, deadline).await
    }
}

fn parse_holder(value: &Value) -> Result<Box<[u8]>, EngineError> {
    match value {
        Value::BulkString(holder) => Ok(holder.as_slice().into()),
        _ => Err(unexpected_reply(format!("{value:?} for a holder"))),
    }
}

fn parse_millis(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default())
}
