//! Waiting in the line of a lock: the claim looks from time to time whether it is its turn.

use crate::engine::error::EngineError;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::store::StoreEngine;
use crate::engine::store::known::Known;
use crate::engine::store::machine::{Command, MAX_WAITERS, Reply, Want};
use crate::engine::store::run::Start;
use crate::engine::store::schedule::{Looks, pace_after};
use crate::engine::token::Token;
use crate::util::clock::{Timestamp, without_margin};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

impl StoreEngine {
    pub(crate) async fn enqueue(
        &self,
        claim: &Claim,
        _: Option<ServerTime>,
        deadline: Instant,
    ) -> Result<EnqueueReply, EngineError> {
        let (core, name) = (&self.core, &claim.name);
        let (waits, token) = (Command::Wait(Want::of(claim)), claim.token);
        let asked = core.clock.now();
        core.hear();
        let looked = core.waiting.lock().get(&token).copied();
        let reply = match looked {
            None => core.run(name, waits, Start::New, deadline).await?,
            Some(looks) => {
                let _turn = core.turns.take(core.io, name).await;
                let mut known = core.known.get(name);
                core.load(name, &mut known, deadline).await?;
                if let Some(left) = self.granted(&known, token, looks.asked) {
                    core.waiting.lock().remove(&token);
                    return Ok(EnqueueReply::AlreadyHeld(left));
                }
                core.run_on(name, known, true, waits, deadline).await?
            }
        };
        let ahead = match reply {
            Reply::Waits { ahead } => ahead,
            Reply::Full => MAX_WAITERS,
            reply => {
                core.waiting.lock().remove(&token);
                return Ok(match reply {
                    Reply::Held => EnqueueReply::Granted(claim.ttl),
                    _ => EnqueueReply::Stale,
                });
            }
        };
        Ok(EnqueueReply::Queued(self.status(name, token, ahead, asked)))
    }

    /// Returns the rest of a grant that came after the last look, so that the lease counts from then. It
    /// suffices until the first renewal, which confirms it.
    fn granted(&self, known: &Known, token: Token, asked: Timestamp) -> Option<Duration> {
        let granted = known.record.holder(token).filter(|it| it.granted)?;
        let ttl = Duration::from_millis(granted.ttl.into());
        let age = self.core.clock.now().elapsed_since(asked);
        let left = without_margin(ttl).saturating_sub(age);
        // Others may judge by the server's clock, from when the one before has begun to leave.
        let left = match granted.until {
            0 => left,
            until => left.min(without_margin(self.core.time_until(until)?)),
        };
        (self.core.store.loads_the_present() && left > ttl / 2).then_some(left)
    }

    /// Returns the place of a claim that waits, and when it looks again.
    fn status(&self, name: &Arc<str>, token: Token, ahead: usize, asked: Timestamp) -> QueueStatus {
        let (core, now) = (&self.core, self.core.clock.now());
        let mut known = core.known.get(name);
        let mut waiting = core.waiting.lock();
        let looks = waiting.entry(token).or_insert(Looks::begin(ahead, asked));
        if let Some(took) = looks.next(ahead, asked) {
            known.pace = Some(pace_after(known.pace, took));
        }
        let pause = core.pause_with_bells(looks.pause(known.pace));
        drop(waiting);
        let next_end = known.observer.next_end(&known.record, now, known.time);
        let first = known.record.holders.first();
        let status = QueueStatus {
            server_time: ServerTime(now.elapsed_since(self.started)),
            holder_ttl: next_end.unwrap_or_default(),
            position: ahead as u64,
            has_others: known.record.waiters.len() > 1,
            holder: first.map(|it| it.token.holder()).unwrap_or_default(),
            poll_in: Some(next_end.map_or(pause, |end| end.min(pause))),
        };
        core.known.put(name, known, now);
        status
    }
}
