//! The requests of one connection as their callers see them: they are submitted from any thread, and the
//! driver of the connection writes them and reports the replies.

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::redis::net::slots::Slots;
use crate::engine::redis::net::slots::effects::Effects;
use crate::engine::redis::net::slots::request::Request;
use crate::engine::redis::net::slots::slab::Outcome;
use crate::util::sync::{Mutex, MutexGuard};
use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

#[derive(Default)]
pub(crate) struct Pipeline {
    slots: Mutex<Slots>,
}

impl Pipeline {
    /// Sets the waker of the driver, before any request is submitted.
    pub(crate) fn set_driver(&self, driver: Waker) {
        self.slots().driver = Some(driver);
    }

    /// Submits a request, once the ticket is polled. An acquisition has a supervisor: if its caller leaves early, it is
    /// released.
    pub(crate) fn submit<'a>(
        &'a self,
        request: Request,
        deadline: Instant,
        supervisor: Option<&'a Arc<dyn ReleaseSupervisor>>,
    ) -> Ticket<'a> {
        Ticket {
            pipeline: self,
            deadline,
            stage: Stage::New(request),
            supervisor,
        }
    }

    /// Submits a release that no caller awaits. Returns it if the connection has ended.
    pub(crate) fn release_in_background(
        &self,
        release: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        let mut slots = self.slots();
        let put = slots.put_background(release);
        wake_driver(slots);
        put
    }

    /// Ends the connection: no request is accepted any more, and none under way gets a reply.
    pub(crate) fn end(&self) {
        let mut effects = Effects::default();
        let driver = self.slots().end(&mut effects);
        // Outside the mutex: it owns the driver.
        drop(driver);
        effects.perform();
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the driver, if requests were submitted for which it has to be.
fn wake_driver(mut slots: MutexGuard<'_, Slots>) {
    let wakes = slots.wakes_driver();
    let driver = wakes.then(|| slots.driver.clone()).flatten();
    drop(slots);
    if let Some(driver) = driver {
        driver.wake();
    }
}

/// A request, which resolves to what became of it. Dropping it early leaves the request.
pub(crate) struct Ticket<'a> {
    pipeline: &'a Pipeline,
    deadline: Instant,
    stage: Stage,
    supervisor: Option<&'a Arc<dyn ReleaseSupervisor>>,
}

#[derive(Default)]
enum Stage {
    New(Request),
    /// Submitted in that slot.
    Submitted(usize),
    /// The connection had ended, or the reply is taken.
    #[default]
    Ended,
}

impl Future for Ticket<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut slots = self.pipeline.slots();
        match take(&mut self.stage) {
            Stage::New(request) => {
                let Some(slot) = slots.put(request, self.deadline) else {
                    return Poll::Ready(Outcome::NotSent);
                };
                self.stage = Stage::Submitted(slot);
                let polled = slots.poll(slot, context.waker());
                wake_driver(slots);
                polled
            }
            Stage::Submitted(slot) => {
                let polled = slots.poll(slot, context.waker());
                if !matches!(polled, Poll::Ready(Outcome::Reply(..))) {
                    self.stage = Stage::Submitted(slot);
                }
                polled
            }
            Stage::Ended => Poll::Ready(Outcome::NotSent),
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let Stage::Submitted(slot) = self.stage else {
            return;
        };
        let left = self.pipeline.slots().leave(slot);
        let Some(supervisor) = self.supervisor else {
            return;
        };
        for claim in left {
            // On the same connection, so that the server executes it after the acquisition.
            let release = BackgroundRelease::new(claim, false, supervisor.clone());
            if let Err(release) = self.pipeline.release_in_background(release) {
                release.hand_over(false);
            }
        }
    }
}
