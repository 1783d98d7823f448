//! Releases and cancels claims, within the caller's call or in the background.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::timeouts::{OUTAGE, WAITER_TTL};
use crate::lock::claim_events::ClaimEvents;
use crate::lock::context::{Context, Effort};
use crate::lock::pending_releases::{PendingRelease, PendingReleases};
use crate::trace;
use crate::util::io_thread::{can_poll, kept};
use crate::util::time::{deadline_in, timeout_at};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{self, Poll, Waker};
use std::time::Duration;

/// The interval at which replies are collected while any release is pending.
const COLLECT_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct Releaser {
    context: Arc<Context>,
    claims: Arc<ClaimEvents>,
    pending: Arc<PendingReleases>,
}

impl Releaser {
    pub(crate) fn start(context: Arc<Context>, claims: Arc<ClaimEvents>) -> Arc<Releaser> {
        let pending = Arc::<PendingReleases>::default();
        let releaser = Arc::new(Releaser {
            context,
            claims,
            pending: pending.clone(),
        });
        let this = Arc::downgrade(&releaser);
        let collector = kept(move || run_collector(pending.clone(), this.clone()));
        releaser.context.io.spawn_detached(collector);
        releaser
    }

    /// Releases a lock. Returns `true` if the claim owned it. `was_held`: `true` if the lock was held until now,
    /// as far as this process knows.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        effort: Effort,
        was_held: bool,
    ) -> Result<bool, EngineError> {
        let context = &self.context;
        let released = context
            .retry(effort, |deadline| context.engine.release(claim, deadline))
            .await;
        // Only after the release: until then a late grant message must still find its claim, or it would be
        // canceled as unclaimed.
        self.claims.unregister(claim.token);
        let (was_owner, may_have_run) = released?;
        // An earlier try may have released the lock, so that this one found none.
        let was_owner = was_owner || may_have_run;
        if !was_owner && was_held {
            let key: Arc<str> = context.key_of(&claim.name).into();
            // On the I/O thread: the caller that polls this future may hold a mutex of the library.
            let warning = async move { trace::released_missing_lock(&key) };
            context.io.spawn_detached(warning);
        }
        Ok(was_owner)
    }

    /// Releases in the background until the server has confirmed it or the ttl has passed; for longer if the
    /// claim may not have reached the server yet. The request is sent at once.
    pub(crate) fn release_in_background(self: &Arc<Self>, claim: Claim, was_held: bool) {
        if !self.context.engine.uses_caller_runtime(&claim.name) || !self.make_capacity() {
            let mut release = Box::pin(self.clone().release_until_confirmed(claim, was_held));
            if !can_poll() || poll_once(release.as_mut()).is_pending() {
                self.context.tasks.spawn(release);
            }
            return;
        }
        let (this, claimed) = (self.clone(), claim.clone());
        let release = async move {
            let deadline = deadline_in(this.context.command_timeout);
            let effort = Effort::InCall { deadline };
            this.release(&claimed, effort, was_held).await.is_ok()
        };
        let task = self.context.tasks.track();
        let mut release = PendingRelease::new(task, claim, was_held, release);
        match release.poll_confirmed() {
            Poll::Pending => self.pending.push(release),
            Poll::Ready(true) => {}
            Poll::Ready(false) => self.retry_in_background(&release),
        }
    }

    /// Retries a release that its own runtime has not finished.
    fn retry_in_background(self: &Arc<Self>, release: &PendingRelease) {
        let claim = release.claim.clone();
        let work = self
            .clone()
            .release_until_confirmed(claim, release.was_held);
        self.context.tasks.spawn(work);
    }

    async fn release_until_confirmed(self: Arc<Self>, claim: Claim, was_held: bool) {
        let ttl = claim.ttl;
        let time = if was_held { ttl } else { ttl.max(OUTAGE) };
        let deadline = deadline_in(time);
        let effort = Effort::InBackground { deadline, ttl };
        if let Err(error) = self.release(&claim, effort, was_held).await {
            self.context.engine.forget(claim.token);
            self.report_failure(&claim.name, &error);
        }
    }

    /// Removes a claim from the server queue, or releases the lock if it was granted meanwhile.
    /// `in_flight`: `true` if a request of the claim may still reach the server.
    pub(crate) fn cancel_in_background(self: &Arc<Self>, claim: Claim, in_flight: bool) {
        let this = self.clone();
        let cancel = async move { this.cancel(&claim, in_flight).await };
        self.context.tasks.spawn(cancel);
    }

    /// Does the same as [`cancel_in_background`](Self::cancel_in_background), and waits for it.
    pub(crate) async fn cancel(&self, claim: &Claim, in_flight: bool) {
        let context = &self.context;
        let (deadline, ttl) = (deadline_in(claim.ttl.max(WAITER_TTL)), claim.ttl);
        let effort = Effort::InBackground { deadline, ttl };
        let canceled = context
            .retry(effort, |deadline| {
                context.engine.cancel(claim, in_flight, deadline)
            })
            .await;
        self.claims.unregister(claim.token);
        if let Err(error) = canceled {
            self.report_failure(&claim.name, &error);
        }
    }

    fn report_failure(&self, name: &str, error: &EngineError) {
        let context = &self.context;
        let server = context.server_of(name);
        context
            .failures
            .release(server, context.key_of(name), error);
    }

    /// Collects the replies of pending releases soon.
    pub(crate) fn collect_soon(&self) {
        self.pending.wake();
    }

    /// Collects replies if there is no capacity. Returns `true` if one more release may be pending.
    fn make_capacity(self: &Arc<Self>) -> bool {
        if self.pending.has_capacity() {
            return true;
        }
        if self.pending.was_just_polled() {
            return false;
        }
        self.collect();
        self.pending.has_capacity()
    }

    /// Collects replies. Returns `true` if any release is still pending.
    fn collect(self: &Arc<Self>) -> bool {
        let (unconfirmed, any_pending) = self.pending.poll_all(self.context.command_timeout);
        for release in unconfirmed {
            self.retry_in_background(&release);
        }
        any_pending
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
}

impl Drop for Releaser {
    fn drop(&mut self) {
        // Ends the collector.
        self.pending.wake();
    }
}

/// Collects replies while the releaser lives. Every pending release keeps it alive.
async fn run_collector(pending: Arc<PendingReleases>, releaser: Weak<Releaser>) {
    loop {
        pending.woken().await;
        loop {
            match releaser.upgrade() {
                Some(releaser) if releaser.collect() => {}
                Some(_) => break,
                None => return,
            }
            let _ = timeout_at(deadline_in(COLLECT_INTERVAL), pending.woken()).await;
        }
    }
}

/// Polls a future once, so that its request is sent.
fn poll_once<F: Future<Output = ()>>(work: Pin<&mut F>) -> Poll<()> {
    work.poll(&mut task::Context::from_waker(Waker::noop()))
}
