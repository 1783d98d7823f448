//! Waits in the server queue on behalf of all local waiters of one lock.
//!
//! Grant messages are only an optimization: the task also polls, so a lost message costs at most one
//! polling interval.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::lease::Lease;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::retry::Retry;
use crate::engine::timeouts::{GRANT_TTL, WAITER_TTL};
use crate::engine::token::Token;
use crate::error::Holder;
use crate::limit::Limit;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::handoff::grant_to_front;
use crate::lock::hold::Hold;
use crate::lock::inner::ManagerInner;
use crate::util::backoff::{Backoff, fraction};
use crate::util::clock::Timestamp;
use crate::util::inbox::Inbox;
use crate::util::io_thread::pause;
use crate::util::panics::caught;
use crate::util::time::{deadline_in, elapsed_since, now, sleep_until, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The first and the longest polling interval of a claim at the front of the server queue.
const FRONT_POLL: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(500)];
/// The polling interval of the next two claims, in case the first has died.
const NEAR_FRONT_POLL: Duration = Duration::from_secs(1);
/// The polling interval of the other claims. It grows with the number of claims ahead, all of which must have
/// died before it is their turn. A row of *n* dead claims delays the next one by at most 2 s + 0.2 s × *n*. Of
/// that, 0.2 s is for the claims that are woken to poll, and 0.05 s × *n* for their turns.
const BACK_POLL: Duration = Duration::from_millis(1800);
const BACK_POLL_PER_CLAIM: Duration = Duration::from_millis(150);
const MAX_BACK_POLL: Duration = Duration::from_secs(12);
/// How much later each claim polls than the claim ahead of it when the holder's lease expires.
const EXPIRY_STAGGER: Duration = Duration::from_millis(50);

/// For how long an empty local queue is still known to have remote waiters.
const LINGER: Duration = Duration::from_millis(20);

/// Starts the remote wait of a local queue, which ends when no waiter is left. Returns its inbox.
pub(crate) fn spawn(
    inner: Arc<ManagerInner>,
    name: Arc<str>,
    limit: Limit,
) -> Arc<Inbox<ClaimEvent>> {
    let events = Arc::new(Inbox::new());
    let mut remote_wait = RemoteWait {
        inner: inner.clone(),
        name,
        limit,
        events: events.clone(),
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
    /// The claim that currently waits in the server queue.
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
            let Some(options) = inner.queues.front_options(&self.name, self.limit) else {
                self.linger().await;
                if inner.queues.remove_if_empty(&self.name, self.limit) {
                    return;
                }
                continue;
            };
            let claim = Claim {
                name: self.name.clone(),
                token: Token::draw(inner.context.process).with_limit(self.limit),
                ttl: options.ttl,
                replicas: options.replicas,
            };
            inner.claims.register(claim.token, self.events.clone());
            self.claim = Some(claim);
            let outcome = match &self.claim {
                Some(claim) => self.wait_in_server_queue(claim).await,
                None => WaitOutcome::Stale,
            };
            let Some(mut claim) = self.claim.take() else {
                continue;
            };
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
            if inner.context.is_closed() {
                let error = inner.context.shutting_down(&self.name);
                inner.queues.fail_all(&self.name, self.limit, &error);
            }
        }
    }

    /// Waits for a moment while this process holds the lock and no other process is known to wait for it: local
    /// handoff may serve the waiters without the server.
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

    /// Keeps the empty queue for a moment if there are remote waiters: a new local waiter then goes straight to
    /// the server queue, without a try that would fail.
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

    async fn wait_in_server_queue(&self, claim: &Claim) -> WaitOutcome {
        let ManagerInner {
            context, queues, ..
        } = &*self.inner;
        let (mut retry, mut last_answer) = (Retry::default(), now());
        let mut front_poll = Backoff::new(FRONT_POLL[0], FRONT_POLL[1]);
        let mut in_flight = false;
        let mut server_time_anchor: Option<(Timestamp, ServerTime)> = None;
        let mut holder = Holder::default();
        loop {
            if queues.is_empty(&self.name, self.limit) || context.is_closed() {
                return WaitOutcome::Abandoned { in_flight };
            }
            let sent = context.clock.now();
            let valid_until = server_time_anchor
                .map(|(then, at)| ServerTime(at.0 + sent.elapsed_since(then) + WAITER_TTL));
            let deadline = deadline_in(context.command_timeout);
            let standing = context.engine.enqueue(claim, valid_until, deadline).await;
            if let Ok(EnqueueReply::AlreadyHeld(left)) = standing {
                self.report_missed_grant(claim, left);
            }
            let in_time = |token, left| {
                let lease = context.engine.lease(token, sent, left);
                let over = lease.remaining(context.clock.now()).is_zero();
                (!over).then_some(lease)
            };
            let delay = match standing {
                Ok(EnqueueReply::Granted(left) | EnqueueReply::AlreadyHeld(left)) => {
                    match in_time(claim.token, left) {
                        Some(lease) => return WaitOutcome::Granted(claim.token, lease),
                        None => Duration::ZERO,
                    }
                }
                Ok(EnqueueReply::GrantedAs(token, left)) => {
                    if let Some(lease) = in_time(token, left) {
                        return WaitOutcome::Granted(token, lease);
                    }
                    let elected = Claim {
                        token,
                        ..claim.clone()
                    };
                    let releaser = &self.inner.shared.releaser;
                    releaser.release_in_background(elected, false);
                    Duration::ZERO
                }
                Ok(EnqueueReply::Stale) => return WaitOutcome::Stale,
                Ok(EnqueueReply::Queued(waiting)) => {
                    queues.set_remote_state(&self.name, self.limit, Some(waiting.has_others), None);
                    in_flight = false;
                    server_time_anchor = Some((sent, waiting.server_time));
                    if std::mem::replace(&mut holder, waiting.holder) != waiting.holder {
                        queues.set_remote_holder(&self.name, self.limit, waiting.holder);
                    }
                    last_answer = now();
                    next_poll_delay(&waiting, &mut front_poll)
                }
                Err(error) if error.is_retryable() => {
                    in_flight |= error.kind == EngineErrorKind::Indeterminate;
                    let delay = retry.pause_after(&error);
                    queues.set_remote_state(&self.name, self.limit, None, Some(error));
                    delay
                }
                // A server that answered recently may answer again.
                Err(error)
                    if server_time_anchor.is_some()
                        && elapsed_since(last_answer) < context.command_timeout =>
                {
                    queues.set_remote_state(&self.name, self.limit, None, Some(error.clone()));
                    retry.pause_after(&error)
                }
                Err(error) => return WaitOutcome::Rejected(error),
            };
            let granted = self.wait_for_event(claim, &server_time_anchor, deadline_in(delay));
            if let Some(lease) = granted.await {
                return WaitOutcome::Granted(claim.token, lease);
            }
        }
    }

    /// Waits until it is time to poll. Returns the lease if the lock is granted before that.
    async fn wait_for_event(
        &self,
        claim: &Claim,
        server_time_anchor: &Option<(Timestamp, ServerTime)>,
        mut deadline: Instant,
    ) -> Option<Lease> {
        while let Ok(event) = timeout_at(deadline, self.events.recv()).await {
            match event {
                ClaimEvent::Granted(grant) if grant.token == claim.token => {
                    let now = self.inner.context.clock.now();
                    // Without an anchor, the time that the message was in flight is unknown.
                    let (then, at) = (*server_time_anchor)?;
                    let lease = Lease::from_grant(
                        now,
                        then,
                        grant.server_time.0.checked_sub(at.0)?,
                        grant.lease,
                    );
                    return (!lease.remaining(now).is_zero()).then_some(lease);
                }
                ClaimEvent::AtFront(token) if token == claim.token => {
                    let half = FRONT_POLL[0] / 2;
                    deadline = deadline.min(deadline_in(half + fraction(half)));
                }
                ClaimEvent::Granted(_) | ClaimEvent::AtFront(_) => {}
                ClaimEvent::MoreWaiters => {
                    let queues = &self.inner.queues;
                    queues.set_remote_state(&self.name, self.limit, Some(true), None);
                }
                ClaimEvent::Wake => return None,
            }
        }
        None
    }

    /// Reports a grant whose message has not arrived for some time.
    fn report_missed_grant(&self, claim: &Claim, left: Duration) {
        let granted_for = claim.ttl.min(GRANT_TTL);
        if granted_for.saturating_sub(left) > Duration::from_millis(300) {
            self.inner.context.engine.on_missed_grant();
        }
    }

    /// Delivers a granted lock once replicas have acknowledged it.
    async fn deliver_replicated(&self, claim: Claim, lease: Lease) {
        match self.await_replicas(&claim, lease).await {
            Ok(lease) => self.deliver_grant(&claim, lease),
            Err(error) => self.return_grant(&claim, error).await,
        }
    }

    /// Renews a grant, so that replicas acknowledge it. Returns the renewed lease.
    async fn await_replicas(&self, claim: &Claim, lease: Lease) -> Result<Lease, EngineError> {
        let context = &self.inner.context;
        let sent = context.clock.now();
        let deadline = deadline_in(context.command_timeout.min(lease.remaining(sent)));
        let renewed = context.engine.renew(std::slice::from_ref(claim), deadline);
        let renewed = renewed.await?.pop().unwrap_or(Ok(false))?;
        // An acknowledgment counts only if it arrived while the lease was valid.
        match renewed && !lease.remaining(context.clock.now()).is_zero() {
            true => Ok(context.engine.lease(claim.token, sent, claim.ttl)),
            false => {
                let words = "the lock was lost before its replicas acknowledged it";
                Err(EngineError::new(EngineErrorKind::NotReady, words))
            }
        }
    }

    /// Returns a grant that replicas did not acknowledge to the server. Another claim follows soon.
    async fn return_grant(&self, claim: &Claim, error: EngineError) {
        let inner = &self.inner;
        inner.shared.releaser.cancel(claim, false).await;
        if error.is_retryable() {
            let queues = &inner.queues;
            queues.set_remote_state(&self.name, self.limit, None, Some(error));
            sleep_until(deadline_in(FRONT_POLL[0] + fraction(FRONT_POLL[0]))).await;
        } else {
            let error = inner.context.unavailable(&self.name, error);
            inner.queues.fail_all(&self.name, self.limit, &error);
        }
    }

    /// Delivers a granted lock to the local waiter at the front, and a read lock to the readers behind it; or
    /// returns it to the server.
    fn deliver_grant(&self, claim: &Claim, lease: Lease) {
        let ManagerInner { shared, queues, .. } = &*self.inner;
        let mut hold: Option<Arc<Hold>> = None;
        let delivered = grant_to_front(queues, (&self.name, self.limit), |options| {
            if options.replicas > claim.replicas {
                return None;
            }
            if let Some(hold) = &hold {
                return hold.offer_again(options).then(|| hold.clone());
            }
            hold = Hold::granted(shared.clone(), claim.clone(), options, lease).ok();
            hold.clone()
        });
        if !delivered {
            self.as_owed(|| match hold {
                Some(hold) => {
                    hold.vacate();
                    hold.release_in_background();
                }
                None => shared.releaser.cancel_in_background(claim.clone(), false),
            });
        }
    }

    /// Begins what follows from the leaving of the last waiter: its thread waits for that at its end.
    fn as_owed(&self, begin: impl FnOnce()) {
        match self.inner.queues.to_leave(&self.name, self.limit) {
            Some(debt) => debt.charge(begin),
            None => begin(),
        }
    }
}

/// Returns the time until a claim polls. A claim at the front polls often, since clients that do not use the
/// queue send no message when they release a lock. When the holder's lease expires all claims poll, one after
/// the other, since the claims ahead may be dead.
fn next_poll_delay(waiting: &QueueStatus, front_poll: &mut Backoff) -> Duration {
    let ahead = u32::try_from(waiting.position).unwrap_or(u32::MAX);
    let at_most = |interval: Duration| interval.mul_f64(0.9) + fraction(interval.mul_f64(0.1));
    let interval = match ahead {
        0 => front_poll.pause(),
        1 | 2 => at_most(NEAR_FRONT_POLL),
        _ => {
            let more = BACK_POLL_PER_CLAIM.saturating_mul(ahead);
            at_most(MAX_BACK_POLL.min(BACK_POLL.saturating_add(more)))
        }
    };
    let expiry = waiting.holder_ttl + Duration::from_millis(2);
    interval.min(expiry.saturating_add(EXPIRY_STAGGER.saturating_mul(ahead)))
}
