//! Releases, and what else goes on after a call has returned.

use crate::api::manager::Shared;
use crate::engine::error::{EngineError, Fault};
use crate::engine::request::{ALIVE, Answer, Claim, OUTAGE};
use crate::engine::retry::Retry;
use crate::trace;
use crate::util::io_thread::{after, can_poll, instant};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// How long a request is repeated, and through what.
#[derive(Clone, Copy)]
pub(crate) enum Effort {
    /// The caller waits for it: through what passes by itself.
    InCall { until: Instant },
    /// Whatever the server answers. Once no more locks are handed out, it is the ttl at most.
    InBackground { until: Instant, ttl: Duration },
}

impl Shared {
    /// Repeats a request that does no harm when repeated. Each try is given the command timeout. Says
    /// beside the answer whether an earlier try may have been carried out.
    pub(crate) async fn persist<'a, T>(
        &self,
        effort: Effort,
        request: impl Fn(Instant) -> Answer<'a, T>,
    ) -> Result<(T, bool), EngineError> {
        let (mut until, mut ttl) = match effort {
            Effort::InCall { until } => (until, None),
            Effort::InBackground { until, ttl } => (until, Some(ttl)),
        };
        let in_background = ttl.is_some();
        let mut retry = Retry::default();
        let mut repeated = false;
        loop {
            if self.is_closed()
                && let Some(ttl) = ttl.take()
            {
                until = until.min(after(ttl));
            }
            let error = match request(after(self.command_timeout).min(until)).await {
                Ok(answer) => return Ok((answer, repeated)),
                Err(error) => error,
            };
            repeated |= error.fault == Fault::Unanswered;
            let next = instant() + retry.pause_after(&error);
            if next >= until || !(in_background || error.is_transient()) {
                return Err(error);
            }
            self.io.sleep_until(next).await;
        }
    }

    /// Releases a lock, and says whether it was still the claim's. `held`: it was until now, as far
    /// as we know, so that it should be.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        effort: Effort,
        held: bool,
    ) -> Result<bool, EngineError> {
        let released = self
            .persist(effort, |until| self.engine.release(claim, until))
            .await;
        // Not sooner: a grant that is told late would be taken for one that nobody wants.
        self.waiters.forget(claim.token);
        let (found, repeated) = released?;
        // What an earlier try has freed, a later one can't find.
        let found = found || repeated;
        if !found && held {
            let key: Arc<str> = self.key_of(&claim.name).into();
            // Not here: whatever polls this may hold a lock of ours.
            self.io
                .run(async move { trace::release_found_nothing(&key) });
        }
        Ok(found)
    }

    /// Releases in the background until the server has confirmed it, or the ttl has passed; longer if the
    /// claim may not have reached the server yet. It is sent at once.
    pub(crate) fn release_later(self: &Arc<Self>, claim: Claim, held: bool) {
        if !self.engine.is_at_home(&claim.name) || !self.owed.has_room(self) {
            let mut release = Box::pin(self.clone().release_until_confirmed(claim, held));
            if !can_poll() || begin(release.as_mut()).is_pending() {
                self.in_background(release);
            }
            return;
        }
        let (shared, claimed) = (self.clone(), claim.clone());
        let release = async move {
            let until = after(shared.command_timeout);
            let effort = Effort::InCall { until };
            shared.release(&claimed, effort, held).await.is_ok()
        };
        self.owed.enter(Counted::new(self), claim, held, release);
    }

    /// Goes on with a release that its own runtime has not brought to an end.
    pub(crate) fn take_over(self: &Arc<Self>, claim: Claim, held: bool) {
        self.in_background(self.clone().release_until_confirmed(claim, held));
    }

    async fn release_until_confirmed(self: Arc<Self>, claim: Claim, held: bool) {
        let ttl = claim.ttl;
        let time = if held { ttl } else { ttl.max(OUTAGE) };
        let until = after(time);
        let effort = Effort::InBackground { until, ttl };
        if let Err(error) = self.release(&claim, effort, held).await {
            self.engine.forget(claim.token);
            self.not_released(&claim.name, &error);
        }
    }

    /// Has a claim leave its queue, and give back what it may have been granted.
    pub(crate) fn cancel_later(self: &Arc<Self>, claim: Claim, unanswered: bool) {
        let shared = self.clone();
        self.in_background(async move { shared.cancel(&claim, unanswered).await });
    }

    /// The same, and waits for it.
    pub(crate) async fn cancel(&self, claim: &Claim, unanswered: bool) {
        let (until, ttl) = (after(claim.ttl.max(ALIVE)), claim.ttl);
        let effort = Effort::InBackground { until, ttl };
        let cancelled = self
            .persist(effort, |until| self.engine.cancel(claim, unanswered, until))
            .await;
        self.waiters.forget(claim.token);
        if let Err(error) = cancelled {
            self.not_released(&claim.name, &error);
        }
    }

    fn not_released(&self, name: &str, error: &EngineError) {
        self.failures
            .release(self.server_of(name), self.key_of(name), error);
    }

    /// Does what [`shutdown`](LockManager::shutdown) waits for.
    pub(crate) fn in_background(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.io.run(InBackground {
            work,
            counted: Some(Counted::new(self)),
        });
    }
}

/// Something that [`shutdown`](LockManager::shutdown) waits for, until this is dropped.
pub(crate) struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Counted {
        shared.releasing.send_modify(|releasing| *releasing += 1);
        Counted(shared.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.releasing.send_modify(|releasing| *releasing -= 1);
    }
}

pin_project! {
    struct InBackground<F> {
        #[pin]
        work: F,
        counted: Option<Counted>,
    }
}

impl<F: Future<Output = ()>> Future for InBackground<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let done = this.work.poll(context);
        if done.is_ready() {
            *this.counted = None;
        }
        done
    }
}

/// Polls a future the first time, so that what it sends is sent.
fn begin<F: Future<Output = ()>>(work: Pin<&mut F>) -> Poll<()> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}
