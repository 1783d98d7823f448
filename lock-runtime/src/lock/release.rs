//! Releases and cancels claims, within the caller's call or in the background.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::request::Claim;
use crate::engine::timeouts::{OUTAGE, WAITER_TTL};
use crate::lock::claim_events::ClaimEvents;
use crate::lock::context::{Context, Effort};
use crate::trace;
use crate::util::io_thread::can_poll;
use crate::util::time::deadline_in;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

pub(crate) struct Releaser {
    context: Arc<Context>,
    claims: Arc<ClaimEvents>,
}

impl Releaser {
    pub(crate) fn new(context: Arc<Context>, claims: Arc<ClaimEvents>) -> Releaser {
        Releaser { context, claims }
    }

    /// Releases a lock. Returns `true` if the claim owned it. `was_held`: `true` if the lock was held until
    /// now, as far as this process knows.
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
            self.report_missing(&claim.name);
        }
        Ok(was_owner)
    }

    /// Releases in the background until the server has confirmed it or the ttl has passed; for longer if the
    /// claim may not have reached the server yet. The request is sent at once.
    pub(crate) fn release_in_background(self: &Arc<Self>, claim: Claim, was_held: bool) {
        let release = BackgroundRelease::new(claim, was_held, self.clone());
        if let Err(release) = self.context.engine.release_in_background(release) {
            release.hand_over(false);
        }
    }

    /// Forgets a claim that owns nothing more.
    pub(crate) fn forget(&self, claim: &Claim) {
        self.claims.unregister(claim.token);
    }

    /// `may_have_run`: `true` if an earlier request may have released the lock.
    pub(crate) async fn release_until_confirmed(
        &self,
        claim: &Claim,
        was_held: bool,
        may_have_run: bool,
    ) {
        let ttl = claim.ttl;
        let time = if was_held { ttl } else { ttl.max(OUTAGE) };
        let deadline = deadline_in(time);
        let effort = Effort::InBackground { deadline, ttl };
        let was_held = was_held && !may_have_run;
        if let Err(error) = self.release(claim, effort, was_held).await {
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

    /// Reports that a lock which was held was not found on the server.
    fn report_missing(&self, name: &str) {
        let key: Arc<str> = self.context.key_of(name).into();
        // On the I/O thread: the caller may hold a mutex of the library.
        let warning = async move { trace::released_missing_lock(&key) };
        self.context.io.spawn_detached(warning);
    }
}

impl ReleaseSupervisor for Releaser {
    fn begun(&self) {
        self.context.tasks.begin();
    }

    fn confirmed(&self, claim: &Claim, was_owner: bool, was_held: bool) {
        self.claims.unregister(claim.token);
        if !was_owner && was_held {
            self.report_missing(&claim.name);
        }
        self.context.tasks.end();
    }

    fn unconfirmed(self: Arc<Self>, release: BackgroundRelease, may_have_run: bool) {
        let BackgroundRelease {
            claim,
            was_held,
            pending,
            ..
        } = release;
        let this = self.clone();
        let work = async move {
            let release = this.release_until_confirmed(&claim, was_held, may_have_run);
            release.await;
        };
        let mut work = Box::pin(work);
        // The request is sent at once, if a thread that ends can still do that.
        if can_poll() && poll_once(work.as_mut()).is_ready() {
            self.context.tasks.end();
        } else {
            self.context.tasks.resume(work, pending);
        }
    }
}

/// Polls a future once, so that its request is sent.
fn poll_once<F: Future<Output = ()>>(work: Pin<&mut F>) -> Poll<()> {
    work.poll(&mut task::Context::from_waker(Waker::noop()))
}
