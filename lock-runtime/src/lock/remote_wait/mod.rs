//! Waits in the server queue on behalf of all local waiters of one lock.
//!
//! Grant messages are only an optimization: the task also polls, so a lost message costs at most one
//! polling interval.

mod delivery;
mod poll_interval;
mod recalling;
mod server_queue;

use crate::engine::error::EngineError;
use crate::engine::lease::Lease;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::inner::ManagerInner;
use crate::lock::reserved_place::ReservedPlace;
use crate::options::LockOptions;
use crate::util::inbox::Inbox;
use crate::util::io_thread::pause;
use crate::util::panics::caught;
use crate::util::time::{deadline_in, timeout_at};
use std::sync::Arc;
use std::time::Duration;

/// For how long an empty local queue is still known to have remote waiters.
const LINGER: Duration = Duration::from_millis(20);

/// Starts the remote wait of a local queue, which begins with that place, and ends when no waiter is left.
/// Returns its inbox.
pub(crate) fn spawn(
    inner: &Arc<ManagerInner>,
    name: Arc<str>,
    limit: Limit,
    reserved: Option<ReservedPlace>,
) -> Arc<Inbox<ClaimEvent>> {
    inner.context.reporter.on_use();
    let events = Arc::new(Inbox::new());
    let mut remote_wait = RemoteWait {
        inner: inner.clone(),
        name,
        limit,
        events: events.clone(),
        reserved,
        claim: None,
    };
    inner
        .context
        .tasks
        .spawn_wait(async move { remote_wait.run().await });
    events
}

struct RemoteWait {
    inner: Arc<ManagerInner>,
    name: Arc<str>,
    limit: Limit,
    events: Arc<Inbox<ClaimEvent>>,
    /// The place with which the first claim waits.
    reserved: Option<ReservedPlace>,
    /// The claim that currently waits in the server queue: it is canceled after a panic.
    claim: Option<Claim>,
}

/// The outcome of a claim's wait.
enum WaitOutcome {
    /// The lock was granted with this token, which may differ from the claim's.
    Granted(Token, Lease),
    /// No local waiter is left. `in_flight`: `true` if a request may still reach the server.
    Abandoned {
        in_flight: bool,
    },
    /// This claim can no longer be granted; a new one can.
    Stale,
    Rejected(EngineError),
}

impl RemoteWait {
    async fn run(&mut self) {
        // After a panic, continue to serve the local waiters.
        while caught(self.serve()).await.is_err() {
            if let Some(claim) = self.claim.take() {
                let releaser = &self.inner.shared.releaser;
                releaser.cancel_in_background(claim, true);
            }
            pause().await;
        }
    }

    async fn serve(&mut self) {
        let inner = self.inner.clone();
        loop {
            self.wait_for_local_handoff().await;
            let reserved = self.reserved.take();
            let Some(options) = inner.queues.front_options(&self.name, self.limit) else {
                self.as_owed(|| drop(reserved));
                self.linger().await;
                if inner.queues.remove_if_empty(&self.name, self.limit) {
                    return;
                }
                continue;
            };
            let reserved = reserved.and_then(ReservedPlace::take);
            let claim = reserved.unwrap_or_else(|| self.new_claim(options));
            let (name, events) = (self.name.clone(), self.events.clone());
            inner.claims.register(claim.token, name, events);
            self.claim = Some(claim.clone());
            let outcome = self.wait_in_server_queue(&claim).await;
            self.claim = None;
            self.finish(claim, outcome).await;
            if inner.context.is_closed() {
                let error = inner.context.shutting_down(&self.name);
                inner.queues.fail_all(&self.name, self.limit, &error);
            }
        }
    }

    /// Returns the claim of a waiter with these options. Lets the holder hear that another process waits, if
    /// it may want to know. A lock from the queue is not kept.
    fn new_claim(&self, options: LockOptions) -> Claim {
        let context = &self.inner.context;
        let token = Token::draw(context.process).with_limit(self.limit);
        Claim {
            name: self.name.clone(),
            token: token.recallable_if(context.is_recallable(&self.name, options)),
            ttl: options.ttl,
            replicas: options.replicas,
        }
    }

    async fn finish(&self, mut claim: Claim, outcome: WaitOutcome) {
        let inner = &self.inner;
        match outcome {
            WaitOutcome::Granted(token, lease) => {
                if token != claim.token {
                    inner.claims.unregister(claim.token);
                    claim.token = token;
                }
                match claim.replicas {
                    0 => self.deliver_grant(&claim, lease),
                    // Boxed, since few locks need replicas.
                    _ => Box::pin(self.deliver_replicated(claim, lease)).await,
                }
            }
            WaitOutcome::Abandoned { in_flight } => {
                self.as_owed(|| inner.shared.releaser.cancel_in_background(claim, in_flight));
            }
            WaitOutcome::Stale => inner.claims.unregister(claim.token),
            WaitOutcome::Rejected(error) => {
                let error = inner.context.unavailable(&self.name, error);
                inner.queues.fail_all(&self.name, self.limit, &error);
                self.as_owed(|| inner.shared.releaser.cancel_in_background(claim, false));
            }
        }
    }

    /// Waits for a moment while this process holds the lock and no other process is known to wait for it:
    /// local handoff may serve the waiters without the server.
    async fn wait_for_local_handoff(&self) {
        let ManagerInner {
            context, queues, ..
        } = &*self.inner;
        let deadline = deadline_in(context.handoff.max_time);
        // A hold that readers may join would not have let one wait.
        while context.handoff.max_count > 0
            && self.limit != Limit::UNLIMITED
            && queues.may_be_handed_off(&self.name, self.limit)
            && queues.remote_waiters(&self.name, self.limit) != Some(true)
            && queues
                .front_options(&self.name, self.limit)
                .is_some_and(|front| !front.is_of_several)
            && !context.is_closed()
        {
            if timeout_at(deadline, self.events.recv()).await.is_err() {
                return;
            }
        }
    }

    /// Keeps the empty queue for a moment if there are remote waiters: a new local waiter then goes straight
    /// to the server queue, without a try that would fail.
    async fn linger(&self) {
        let ManagerInner {
            context, queues, ..
        } = &*self.inner;
        let deadline = deadline_in(LINGER);
        while queues.remote_waiters(&self.name, self.limit) == Some(true)
            && queues.is_empty(&self.name, self.limit)
            && !context.is_closed()
        {
            if timeout_at(deadline, self.events.recv()).await.is_err() {
                return;
            }
        }
    }

    /// Begins the work that follows from the leaving of the last waiter: its thread waits for that at its
    /// end.
    fn as_owed(&self, begin: impl FnOnce()) {
        match self.inner.queues.to_leave(&self.name, self.limit) {
            Some(pending) => pending.continue_with(begin),
            None => begin(),
        }
    }
}
