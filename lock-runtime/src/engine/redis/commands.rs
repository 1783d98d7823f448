//! The commands and scripts for locks, and the connections they are sent over.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::keys::Keys;
use crate::engine::redis::net::encoder::milliseconds;
use crate::engine::redis::net::error::is_server_error;
use crate::engine::redis::net::replica_ack::check_replica_count;
use crate::engine::redis::net::request::{Reply, Request};
use crate::engine::redis::router::Router;
use crate::engine::redis::scripts::{Script, Scripts};
use crate::engine::redis::subscription::Subscription;
use crate::engine::request::{Attempt, Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::timeouts::{TOMBSTONE_TTL, WAITER_TTL, WAKE_TTL};
use crate::engine::token::Token;
use crate::error::Holder;
use crate::util::join_all::join_all;
use redis::{Cmd, FromRedisValue, ServerErrorKind, Value};
use std::time::Duration;
use tokio::time::Instant;

/// The commands and scripts for the locks of one deployment.
pub(crate) struct LockCommands {
    pub(crate) router: Router,
    pub(crate) scripts: Scripts,
    pub(crate) keys: Keys,
    pub(crate) subscription: Subscription,
}

/// The connection over which a command is sent.
#[derive(Clone, Copy)]
pub(crate) enum Via {
    IoThread,
    /// Like `IoThread`, but waits for a connection while there is none.
    Patient,
    /// The connection on which that number of replicas is awaited. The reply is a pair: the command's own, and
    /// the number of replicas that acknowledged it.
    ReplicaAck(u32),
}

impl LockCommands {
    /// Sends a command about a lock.
    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        via: Via,
        lock: &str,
        command: &Cmd,
        deadline: Instant,
    ) -> Result<T, EngineError> {
        let (replicas, await_replicas) = match via {
            Via::IoThread | Via::Patient => (0, false),
            Via::ReplicaAck(replicas) => (replicas, true),
        };
        let request = Request {
            replicas,
            await_replicas,
            patient: matches!(via, Via::Patient),
            ..Request::from(command)
        };
        self.router.send(lock, &request, deadline).await?.decode()
    }

    /// Calls a script on a lock's keys. `arguments` appends the keys, then the other arguments.
    pub(crate) async fn eval<T: FromRedisValue>(
        &self,
        via: Via,
        script: &Script,
        (lock, keys): (&str, usize),
        deadline: Instant,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<T, EngineError> {
        let mut command = script.evalsha(keys);
        arguments(&mut command);
        match self.send(via, lock, &command, deadline).await {
            Err(error) if is_server_error(&error, ServerErrorKind::NoScript) => {
                command = script.eval(keys);
                arguments(&mut command);
                self.send(via, lock, &command, deadline).await
            }
            reply => reply,
        }
    }

    /// Acquires the lock if it is free, with the claim's token.
    async fn set_nx(&self, claim: &Claim, deadline: Instant) -> Result<bool, EngineError> {
        let mut command = redis::cmd("SET");
        command
            .arg(&*claim.name)
            .arg(claim.token.encode(&mut [0; 37]))
            .arg("NX")
            .arg("PX")
            .arg(milliseconds(claim.ttl));
        let set = self.send(Via::IoThread, &claim.name, &command, deadline);
        set.await.map(|set: Option<String>| set.is_some())
    }

    /// Repeats the acquisition of a shared lock whose script the server did not know. Returns `None` if the
    /// lock cannot be acquired now without waiting.
    pub(crate) async fn take_again(
        &self,
        request: &Request<'_>,
        attempt: &Attempt,
        error: EngineError,
        deadline: Instant,
    ) -> Result<Option<Reply>, EngineError> {
        if is_try_again(&error) {
            // While the slot moves between nodes, only the lock itself is available, and not its queue.
            return Ok(None);
        }
        if !is_server_error(&error, ServerErrorKind::NoScript) {
            return Err(error);
        }
        let load = self.scripts.take.load();
        let loaded = self.send::<Value>(Via::IoThread, &attempt.name, &load, deadline);
        loaded.await?;
        let reply = self.router.send(&attempt.name, request, deadline).await?;
        Ok(Some(reply))
    }

    /// Turns an exclusive hold into one that shares the lock, with the token `to`. Returns for how long that token
    /// holds the lock, or `None` if the claim did not own it.
    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        to: Token,
        deadline: Instant,
    ) -> Result<Option<Duration>, EngineError> {
        let absent_key = self.keys.absent_key(&claim.name);
        let keys = (&*claim.name, 3 + absent_key.iter().count());
        let script = &self.scripts.downgrade;
        let via = match claim.replicas {
            0 => Via::IoThread,
            replicas => Via::ReplicaAck(replicas),
        };
        let arguments = |command: &mut Cmd| {
            self.queue_keys(command, claim);
            command
                .arg(&absent_key)
                .arg(claim.token.encode(&mut [0; 37]))
                .arg(to.encode(&mut [0; 37]))
                .arg(milliseconds(claim.ttl));
        };
        let (left, known): (u64, u32) = match via {
            Via::ReplicaAck(_) => self.eval(via, script, keys, deadline, arguments).await?,
            _ => (self.eval(via, script, keys, deadline, arguments).await?, 0),
        };
        if left > 0 {
            check_replica_count(known, claim.replicas)?;
        }
        Ok((left > 0).then(|| Duration::from_millis(left)))
    }

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
            self.queue_keys(command, claim);
            command
                .arg(self.tombstone(claim))
                .arg(claim.token.encode(&mut [0; 37]))
                .arg(milliseconds(claim.ttl))
                .arg(&self.subscription.channel)
                .arg(WAITER_TTL.as_micros() as u64)
                .arg(WAKE_TTL.as_micros() as u64)
                .arg(valid_until as u64);
        });
        let reply: Vec<u64> = match reply.await {
            // While the slot moves between nodes there is no queue, but the lock can be acquired.
            Err(error) if is_try_again(&error) => match self.set_nx(claim, deadline).await? {
                true => vec![1, milliseconds(claim.ttl)],
                false => return Err(error),
            },
            reply => reply?,
        };
        match reply[..] {
            [0] => Ok(EnqueueReply::Stale),
            [3, left] => {
                self.subscription.probe();
                Ok(EnqueueReply::AlreadyHeld(Duration::from_millis(left)))
            }
            [1, left] => Ok(EnqueueReply::Granted(Duration::from_millis(left))),
            [2, at, holder_ttl, ahead, length, ref rest @ ..] => {
                Ok(EnqueueReply::Queued(QueueStatus {
                    server_time: ServerTime(Duration::from_micros(at)),
                    holder_ttl: Duration::from_millis(holder_ttl),
                    position: ahead,
                    has_others: length > 1,
                    holder: match rest {
                        [1] => Holder::NeverExpires,
                        [2] => Holder::ForeignValue,
                        _ => Holder::AnotherClient,
                    },
                }))
            }
            _ => Err(unexpected_reply(format!("{reply:?} to a claim that waits"))),
        }
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
            self.queue_keys(command, claim);
            command
                .arg(self.tombstone(claim))
                .arg(&absent_key)
                .arg(claim.token.encode(&mut [0; 37]))
                .arg(tombstone_ttl);
        });
        held.await.map(|held: u8| held == 1)
    }

    /// Releases the lock, and grants it to the first claim in its queue; returns `false` if the claim did not
    /// own it.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let request = Request::release(claim);
        let released = self.router.send(&claim.name, &request, deadline).await;
        match released.and_then(|reply| reply.decode::<u8>()) {
            // Boxed: few releases are repeated.
            Err(error) if is_server_error(&error, ServerErrorKind::NoScript) => {
                let script = &self.scripts.release;
                Box::pin(self.release_by(script, claim, deadline)).await
            }
            // While the slot moves between nodes, a script can use one key, but not several.
            Err(error) if is_try_again(&error) => {
                Box::pin(self.delete_if_owner(claim, deadline)).await
            }
            released => released.map(|released| released == 1),
        }
    }

    /// Releases the lock with that script.
    pub(crate) async fn release_by(
        &self,
        script: &Script,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let absent_key = self.keys.absent_key(&claim.name);
        let keys = (&*claim.name, 3 + absent_key.iter().count());
        let released = self.eval(Via::IoThread, script, keys, deadline, |command| {
            self.queue_keys(command, claim);
            command
                .arg(&absent_key)
                .arg(claim.token.encode(&mut [0; 37]));
        });
        released.await.map(|released: u8| released == 1)
    }

    /// Releases the lock regardless of its queue; returns `false` if the claim did not own it.
    pub(crate) async fn delete_if_owner(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<bool, EngineError> {
        let (script, keys) = (&self.scripts.delete_if_owner, (&*claim.name, 1));
        let deleted = self.eval(Via::IoThread, script, keys, deadline, |command| {
            command
                .arg(&*claim.name)
                .arg(claim.token.encode(&mut [0; 37]));
        });
        deleted.await.map(|deleted: u8| deleted == 1)
    }

    /// Renews each lock that its claim still owns, slot by slot.
    pub(crate) async fn renew(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Vec<Result<bool, EngineError>> {
        let slot = |claim: &Claim| self.router.shard_of(&claim.name).slot;
        let slots = claims.chunk_by(|one, next| slot(one) == slot(next));
        let renewed = join_all(slots.map(|claims| self.renew_slot(claims, deadline))).await;
        renewed.into_iter().flatten().collect()
    }

    async fn renew_slot(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Vec<Result<bool, EngineError>> {
        match self.renew_batch(claims, deadline).await {
            Ok(renewed) => renewed,
            Err(error) if is_try_again(&error) => {
                let each = claims.iter().map(async |claim| {
                    let renewed = self.renew_batch(std::slice::from_ref(claim), deadline);
                    renewed.await?.pop().unwrap_or(Ok(false))
                });
                join_all(each).await
            }
            Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn renew_batch(
        &self,
        claims: &[Claim],
        deadline: Instant,
    ) -> Result<Vec<Result<bool, EngineError>>, EngineError> {
        let Some(first) = claims.first() else {
            return Ok(Vec::new());
        };
        let keys = (&*first.name, claims.len());
        let (script, arguments) = (&self.scripts.renew, |command: &mut Cmd| {
            for claim in claims {
                command.arg(&*claim.name);
            }
            for claim in claims {
                command
                    .arg(claim.token.encode(&mut [0; 37]))
                    .arg(milliseconds(claim.ttl));
            }
        });
        let (renewed, known): (Vec<u8>, u32) = match claims.iter().map(|c| c.replicas).max() {
            None | Some(0) => {
                let renewed = self.eval(Via::Patient, script, keys, deadline, arguments);
                (renewed.await?, 0)
            }
            Some(replicas) => {
                let via = Via::ReplicaAck(replicas);
                self.eval(via, script, keys, deadline, arguments).await?
            }
        };
        if renewed.len() != claims.len() {
            let words = format!("{} answers to {} renewals", renewed.len(), claims.len());
            return Err(unexpected_reply(words));
        }
        let renewed = renewed.into_iter().zip(claims);
        Ok(renewed
            .map(|(renewed, claim)| match renewed {
                b'1' => check_replica_count(known, claim.replicas).map(|()| true),
                _ => Ok(false),
            })
            .collect())
    }

    /// Returns a number greater than all before it, or `None` if the claim does not own the lock.
    pub(crate) async fn fencing_token(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<u64>, EngineError> {
        let (script, keys) = (&self.scripts.fencing_token, (&*claim.name, 2));
        let token = self.eval(Via::IoThread, script, keys, deadline, |command| {
            command
                .arg(&*claim.name)
                .arg(self.keys.fencing_counter(&claim.name))
                .arg(claim.token.encode(&mut [0; 37]));
        });
        token.await
    }

    pub(crate) fn queue_keys(&self, command: &mut Cmd, claim: &Claim) {
        command
            .arg(&*claim.name)
            .arg(self.keys.queue(&claim.name).to_string())
            .arg(self.keys.waiters(&claim.name).to_string());
    }

    pub(crate) fn tombstone(&self, claim: &Claim) -> String {
        let keys = &self.keys;
        keys.tombstone(&claim.name, claim.token.encode(&mut [0; 37]))
    }
}

pub(crate) fn unexpected_reply(reply: String) -> EngineError {
    EngineError::new(
        EngineErrorKind::NotReady,
        format!("the server answered {reply}"),
    )
}

/// Returns `true` if some of the keys are on another node, since their slot is moving there.
pub(crate) fn is_try_again(error: &EngineError) -> bool {
    is_server_error(error, ServerErrorKind::TryAgain)
}
