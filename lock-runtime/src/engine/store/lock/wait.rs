//! Waiting in the line of a lock: the claim looks from time to time whether it is its turn.

use crate::engine::error::EngineError;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::store::StoreEngine;
use crate::engine::store::errand::Start;
use crate::engine::store::machine::{Command, MAX_WAITERS, Reply, Want};
use crate::engine::store::schedule::{Looks, pace_after};
use crate::util::clock::Timestamp;
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
        let start = looked.map_or(Start::New, |looks| Start::Look(looks.asked));
        let reply = core.run(name, waits, start, deadline).await?;
        let ahead = match reply {
            Reply::Waits { ahead } => ahead,
            Reply::Full => MAX_WAITERS,
            reply => {
                core.waiting.lock().remove(&token);
                return Ok(match reply {
                    Reply::Held => EnqueueReply::Granted(claim.ttl),
                    Reply::Granted(left) => EnqueueReply::AlreadyHeld(left),
                    _ => EnqueueReply::Stale,
                });
            }
        };
        Ok(EnqueueReply::Queued(self.status(claim, ahead, asked)))
    }

    /// Returns the place of a claim that waits, and when it looks again.
    fn status(&self, claim: &Claim, ahead: usize, asked: Timestamp) -> QueueStatus {
        let (core, name, now) = (&self.core, &claim.name, self.core.clock.now());
        let mut known = core.known.get(name);
        let mut waiting = core.waiting.lock();
        let looks = waiting
            .entry(claim.token)
            .or_insert(Looks::begin(ahead, asked));
        if let Some(took) = looks.next(ahead, asked) {
            known.pace = Some(pace_after(known.pace, took));
        }
        let pause = looks.pause(known.pace);
        drop(waiting);
        let pause = core.pause_with_bells(pause);
        let next_end = known.observer.next_end(&known.record, now, known.time);
        let first = known.record.holders.first();
        let status = QueueStatus {
            server_time: ServerTime(now.elapsed_since(self.started)),
            holder_ttl: next_end.unwrap_or_default(),
            position: ahead as u64,
            has_others: known.record.waiters.len() > 1,
            holder: first.map(|it| it.token.holder()).unwrap_or_default(),
            sole: first.map(|it| it.token),
            is_recalled: false,
            poll_in: Some(next_end.map_or(pause, |end| end.min(pause))),
        };
        core.known.put(name, known, now);
        status
    }
}
