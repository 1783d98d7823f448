//! The embedded engine with delayed requests and replies.

use crate::engine::background_release::{AwaitedAcquire, ReleaseSupervisor};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::memory::MemoryEngine;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::requests::{Requests, answer_operations};
use crate::engine::token::{Draw, Token};
use crate::engine::traits::Engine;
use crate::tests::shuttle::explore::{coin_flip, pause};
use crate::tests::shuttle::grant_log::GrantLog;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) struct DelayedEngine {
    memory: MemoryEngine,
    log: Arc<GrantLog>,
    /// `true` if some executed renewals get no reply.
    loses_replies: bool,
}

impl DelayedEngine {
    pub(super) fn new(memory: MemoryEngine, log: Arc<GrantLog>) -> DelayedEngine {
        DelayedEngine {
            memory,
            log,
            loses_replies: false,
        }
    }

    pub(super) fn losing_replies(memory: MemoryEngine, log: Arc<GrantLog>) -> DelayedEngine {
        DelayedEngine {
            loses_replies: true,
            ..DelayedEngine::new(memory, log)
        }
    }

    fn delay<'a, T: Send + 'a>(
        &'a self,
        request: impl FnOnce() -> EngineFuture<'a, T> + Send + 'a,
        note: impl FnOnce(&GrantLog, &T) + Send + 'a,
    ) -> EngineFuture<'a, T> {
        Box::pin(async move {
            pause().await;
            let reply = request().await?;
            note(&self.log, &reply);
            pause().await;
            Ok(reply)
        })
    }
}

impl DelayedEngine {
    /// Returns the place that a failed try may leave.
    fn reserve(&self, attempt: &Attempt) -> Option<Acquired> {
        let token = attempt.token(Draw::now());
        let reserves = attempt.waits && coin_flip();
        reserves.then(|| {
            self.log.note(token, |grant| grant.reserved = true);
            Acquired::Place(token)
        })
    }

    async fn pass(&self, _: Instant) -> Result<&MemoryEngine, EngineError> {
        Ok(&self.memory)
    }
}

answer_operations! { DelayedEngine: pass[ping views recall] }

impl Requests for DelayedEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(async move {
            pause().await;
            let acquired = Requests::acquire(&self.memory, attempt, supervisor, deadline).await?;
            let Some(Acquired::Locks { token, count }) = acquired else {
                pause().await;
                return Ok(self.reserve(attempt));
            };
            let awaited = AwaitedAcquire::new(attempt, token, supervisor);
            for claim in attempt.claims(token).take(count) {
                self.log.note(claim.token, |grant| grant.granted = true);
            }
            pause().await;
            awaited.replied(Ok(count))
        })
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        self.log.note(claim.token, |grant| grant.reserved = false);
        self.delay(
            move || Requests::enqueue(&self.memory, claim, valid_until, deadline),
            |log, standing| {
                if matches!(
                    standing,
                    EnqueueReply::Granted(_) | EnqueueReply::AlreadyHeld(_)
                ) {
                    log.note(claim.token, |grant| grant.granted = true);
                }
            },
        )
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        self.log.note(claim.token, |grant| grant.reserved = false);
        self.delay(
            move || Requests::cancel(&self.memory, claim, in_flight, deadline),
            |log, found| log.note(claim.token, |grant| grant.left += usize::from(*found)),
        )
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        self.delay(
            move || Requests::release(&self.memory, claim, deadline),
            |log, _| log.note(claim.token, |grant| grant.releases += 1),
        )
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        let renewed = self.delay(
            move || Requests::renew(&self.memory, claims, deadline),
            |_, _| (),
        );
        Box::pin(async move {
            let renewed = renewed.await?;
            match self.loses_replies && coin_flip() {
                true => Err(EngineError::new(
                    EngineErrorKind::Indeterminate,
                    "the reply was lost",
                )),
                false => Ok(renewed),
            }
        })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        self.delay(
            move || Requests::fencing_token(&self.memory, claim, deadline),
            |_, _| (),
        )
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        self.delay(
            move || Requests::downgrade(&self.memory, claim, to, deadline),
            move |log, left| {
                if left.is_some() {
                    log.note(to, |grant| grant.granted = true);
                }
            },
        )
    }
}

impl Engine for DelayedEngine {
    fn hears_recalls(&self, name: &str) -> bool {
        self.memory.hears_recalls(name)
    }
}
