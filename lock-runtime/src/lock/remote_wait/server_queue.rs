//! The wait of one claim in the server queue: requests, and messages in between.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::lease::Lease;
use crate::engine::recall::Recall;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::retry::Retry;
use crate::engine::timeouts::{GRANT_TTL, WAITER_TTL};
use crate::engine::token::Token;
use crate::error::Holder;
use crate::lock::claim_events::ClaimEvent;
use crate::lock::inner::ManagerInner;
use crate::lock::processes::read_processes;
use crate::lock::remote_wait::poll_interval::{FRONT_POLL, next_poll_delay};
use crate::lock::remote_wait::recalling::Recalling;
use crate::lock::remote_wait::{RemoteWait, WaitOutcome};
use crate::util::backoff::{Backoff, fraction};
use crate::util::clock::Timestamp;
use crate::util::time::{deadline_in, elapsed_since, now, timeout_at};
use std::ops::ControlFlow;
use std::time::Duration;
use tokio::time::Instant;

/// When a grant is older than this, its message should have arrived.
const LATE_MESSAGE: Duration = Duration::from_millis(300);

/// After which time it matters who is in the way.
const LONG_WAIT: Duration = Duration::from_secs(1);

impl RemoteWait {
    pub(super) async fn wait_in_server_queue(&self, claim: &Claim) -> WaitOutcome {
        let wait = ClaimWait {
            remote: self,
            inner: &self.inner,
            claim,
            retry: Retry::default(),
            front_poll: Backoff::new(FRONT_POLL[0], FRONT_POLL[1]),
            in_flight: false,
            begun: now(),
            last_reply: now(),
            anchor: None,
            holder: Holder::default(),
            recalling: Recalling::default(),
        };
        wait.run().await
    }
}

struct ClaimWait<'a> {
    remote: &'a RemoteWait,
    inner: &'a ManagerInner,
    claim: &'a Claim,
    retry: Retry,
    front_poll: Backoff,
    /// `true` if a request may still reach the server.
    in_flight: bool,
    begun: Instant,
    last_reply: Instant,
    /// The server's time in the last reply, and when its request was sent.
    anchor: Option<(Timestamp, ServerTime)>,
    holder: Holder,
    recalling: Recalling,
}

impl ClaimWait<'_> {
    async fn run(mut self) -> WaitOutcome {
        let ManagerInner {
            context, queues, ..
        } = self.inner;
        loop {
            if queues.is_empty(&self.remote.name, self.remote.limit) || context.is_closed() {
                return WaitOutcome::Abandoned {
                    in_flight: self.in_flight,
                };
            }
            let sent = context.clock.now();
            let valid_until = self.valid_until(sent);
            let deadline = deadline_in(context.command_timeout);
            let asked = context.engine.enqueue(self.claim, valid_until, deadline);
            let delay = match self.on_reply(asked.await, sent) {
                ControlFlow::Continue(delay) => delay,
                ControlFlow::Break(outcome) => return outcome,
            };
            if let Some(lease) = self.wait_for_event(deadline_in(delay)).await {
                return WaitOutcome::Granted(self.claim.token, lease);
            }
        }
    }

    /// Returns the server time after which the server ignores a request that is sent now, if this process
    /// knows its clock.
    fn valid_until(&self, now: Timestamp) -> Option<ServerTime> {
        let (then, at) = self.anchor?;
        Some(ServerTime(at.0 + now.elapsed_since(then) + WAITER_TTL))
    }

    /// Returns when to ask again, or the outcome of the wait.
    fn on_reply(
        &mut self,
        reply: Result<EnqueueReply, EngineError>,
        sent: Timestamp,
    ) -> ControlFlow<WaitOutcome, Duration> {
        match reply {
            Ok(EnqueueReply::Granted(left)) => self.on_grant(self.claim.token, left, sent),
            Ok(EnqueueReply::AlreadyHeld(left)) => {
                self.report_missed_grant(left);
                self.on_grant(self.claim.token, left, sent)
            }
            Ok(EnqueueReply::GrantedAs(token, left)) => {
                let granted = self.on_grant(token, left, sent);
                if granted.is_continue() {
                    self.release_elected(token);
                }
                granted
            }
            Ok(EnqueueReply::Stale) => ControlFlow::Break(WaitOutcome::Stale),
            Ok(EnqueueReply::Queued(status)) => ControlFlow::Continue(self.on_queued(status, sent)),
            Err(error) => self.on_error(error),
        }
    }

    /// Ends the wait, unless the lease has ended already; then the claim asks at once.
    fn on_grant(
        &self,
        token: Token,
        left: Duration,
        sent: Timestamp,
    ) -> ControlFlow<WaitOutcome, Duration> {
        let context = &self.inner.context;
        let lease = context.engine.lease(token, sent, left);
        match lease.remaining(context.clock.now()).is_zero() {
            true => ControlFlow::Continue(Duration::ZERO),
            false => ControlFlow::Break(WaitOutcome::Granted(token, lease)),
        }
    }

    /// Releases a lock that was granted with another token than the claim's.
    fn release_elected(&self, token: Token) {
        let elected = Claim {
            token,
            ..self.claim.clone()
        };
        let releaser = &self.inner.shared.releaser;
        releaser.release_in_background(elected, false);
    }

    fn on_queued(&mut self, status: QueueStatus, sent: Timestamp) -> Duration {
        let RemoteWait { name, limit, .. } = self.remote;
        let queues = &self.inner.queues;
        queues.set_remote_state(name, *limit, Some(status.has_others), None);
        self.in_flight = false;
        self.anchor = Some((sent, status.server_time));
        if self.holder != status.holder {
            self.holder = status.holder.clone();
            queues.set_remote_holder(name, *limit, self.holder.clone());
        }
        self.recall(&status);
        self.learn_of_holder();
        self.last_reply = now();
        if let Some(pause) = status.poll_in {
            return pause;
        }
        next_poll_delay(&status, &mut self.front_poll)
    }

    /// Recalls the lock from the process that may keep it, if it is time for that.
    fn recall(&mut self, status: &QueueStatus) {
        let Some(keeper) = status.keeper(self.claim) else {
            return;
        };
        let (name, process) = (self.claim.name.clone(), keeper.process());
        let recalls = &self.inner.queues.recalls;
        recalls.sent.send_replace(Some((name.clone(), process)));
        if !status.is_recalled && self.recalling.is_due(keeper, now()) {
            let token = Some(keeper);
            self.inner
                .context
                .recall(process, vec![Recall { name, token }]);
        }
    }

    /// Finds out, in the background, who has been in the way for long.
    fn learn_of_holder(&self) {
        let inner = self.inner;
        if let Holder::Process { id, .. } = self.holder
            && elapsed_since(self.begun) >= LONG_WAIT
            && id != inner.context.process
            && inner.context.known.begin(id)
        {
            let context = inner.context.clone();
            inner.context.io.spawn_detached(async move {
                if let Some(info) = read_processes(&context, Some(&[id]))
                    .await
                    .ok()
                    .and_then(|mut processes| processes.remove(&id))
                {
                    context.known.add(info);
                }
            });
        }
    }

    fn on_error(&mut self, error: EngineError) -> ControlFlow<WaitOutcome, Duration> {
        let RemoteWait { name, limit, .. } = self.remote;
        if error.is_retryable() {
            self.in_flight |= error.kind == EngineErrorKind::Indeterminate;
        } else if !self.had_recent_reply() {
            return ControlFlow::Break(WaitOutcome::Rejected(error));
        }
        let delay = self.retry.pause_after(&error);
        let queues = &self.inner.queues;
        queues.set_remote_state(name, *limit, None, Some(error));
        ControlFlow::Continue(delay)
    }

    /// Returns `true` if the server has replied recently: it may reply again.
    fn had_recent_reply(&self) -> bool {
        self.anchor.is_some() && elapsed_since(self.last_reply) < self.inner.context.command_timeout
    }

    /// Waits until it is time to poll. Returns the lease if the lock is granted before that.
    async fn wait_for_event(&self, mut deadline: Instant) -> Option<Lease> {
        let RemoteWait {
            name,
            limit,
            events,
            ..
        } = self.remote;
        while let Ok(event) = timeout_at(deadline, events.recv()).await {
            match event {
                ClaimEvent::Granted(grant) if grant.token == self.claim.token => {
                    let now = self.inner.context.clock.now();
                    // Without an anchor, the time that the message was in flight is unknown.
                    let (then, at) = self.anchor?;
                    let lease = Lease::from_grant(
                        now,
                        then,
                        grant.server_time.0.checked_sub(at.0)?,
                        grant.lease,
                    );
                    return (!lease.remaining(now).is_zero()).then_some(lease);
                }
                ClaimEvent::AtFront(token) if token == self.claim.token => {
                    let half = FRONT_POLL[0] / 2;
                    deadline = deadline.min(deadline_in(half + fraction(half)));
                }
                ClaimEvent::Granted(_) | ClaimEvent::AtFront(_) => {}
                ClaimEvent::MoreWaiters => {
                    let queues = &self.inner.queues;
                    queues.set_remote_state(name, *limit, Some(true), None);
                }
                ClaimEvent::Wake => return None,
            }
        }
        None
    }

    /// Reports a grant whose message has not arrived for some time.
    fn report_missed_grant(&self, left: Duration) {
        let granted_for = self.claim.ttl.min(GRANT_TTL);
        if granted_for.saturating_sub(left) > LATE_MESSAGE {
            self.inner.context.engine.on_missed_grant();
        }
    }
}
