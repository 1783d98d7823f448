//! The requests of one connection as their callers see them: they are submitted from any thread, and the
//! driver of the connection writes them and reports the replies.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::conn::batch::Slots;
use crate::engine::redis::conn::batch::effects::Effects;
use crate::engine::redis::conn::batch::slab::Outcome;
use crate::engine::redis::conn::request::Envelope;
use crate::util::sync::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
pub(crate) struct Pipeline {
    slots: Mutex<Slots>,
    /// Why the connection has ended, if it was not the client that ended it.
    broken_by: OnceLock<EngineError>,
}

impl Pipeline {
    /// Sets the waker of the driver, before any request is submitted.
    pub(crate) fn set_driver(&self, driver: Waker) {
        self.slots().driver = Some(driver);
    }

    /// Submits a request, once the ticket is polled.
    pub(crate) fn submit<'a>(&'a self, envelope: &'a Envelope<'a>) -> Ticket<'a> {
        Ticket {
            pipeline: self,
            envelope,
            stage: Stage::New,
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

    /// Records why the connection ends.
    pub(super) fn break_by(&self, error: EngineError) {
        let _ = self.broken_by.set(error);
    }

    /// Returns why the connection has ended.
    pub(super) fn why_ended(&self) -> EngineError {
        self.broken_by.get().cloned().unwrap_or_else(has_ended)
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock()
    }
}

/// Returns the error of a connection that has ended without one.
pub(super) fn has_ended() -> EngineError {
    EngineError::new(EngineErrorKind::NotConnected, "the connection has ended")
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
///
/// The waker of a caller is cloned and dropped outside of the mutex: it belongs to an executor, and its last
/// owner may drop a task with a guard in it.
pub(crate) struct Ticket<'a> {
    pipeline: &'a Pipeline,
    envelope: &'a Envelope<'a>,
    stage: Stage,
}

enum Stage {
    New,
    /// Submitted in that slot.
    Submitted(usize),
    /// The connection had ended, or the reply is taken.
    Ended,
}

impl Future for Ticket<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let pipeline = self.pipeline;
        match self.stage {
            Stage::New => {
                let mut waker = Some(context.waker().clone());
                let Envelope {
                    content,
                    delivery,
                    deadline,
                    ..
                } = *self.envelope;
                let request = content.request();
                let mut slots = pipeline.slots();
                let Some(slot) = slots.put(request, delivery, deadline) else {
                    self.stage = Stage::Ended;
                    return Poll::Ready(Outcome::NotSent);
                };
                self.stage = Stage::Submitted(slot);
                let polled = slots.poll(slot, &mut waker);
                wake_driver(slots);
                polled
            }
            Stage::Submitted(slot) => {
                let mut polled = pipeline.slots().poll(slot, &mut None);
                if polled.is_pending() {
                    let mut waker = Some(context.waker().clone());
                    polled = pipeline.slots().poll(slot, &mut waker);
                }
                if let Poll::Ready(Outcome::Reply(..)) = polled {
                    self.stage = Stage::Ended;
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
        let (left, _waker) = self.pipeline.slots().leave(slot);
        let Some(supervisor) = self.envelope.supervisor else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redis::conn::batch::tests::Log;
    use crate::engine::redis::conn::request::{Content, Via};
    use crate::util::time::{deadline_in, now};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};
    use std::task::Wake;
    use std::time::Duration;

    /// A caller's waker that needs the pipeline when it is dropped: the last one of a task may drop a guard.
    struct Needy {
        pipeline: Arc<Pipeline>,
        dropped: Arc<AtomicU32>,
    }

    impl Wake for Needy {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Needy {
        fn drop(&mut self) {
            let (pipeline, (sender, receiver)) = (self.pipeline.clone(), mpsc::channel());
            std::thread::spawn(move || {
                drop(pipeline.slots());
                let _ = sender.send(());
            });
            let is_free = receiver.recv_timeout(Duration::from_secs(5)).is_ok();
            assert!(is_free, "a waker is dropped under the mutex");
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakers_are_dropped_outside_of_the_mutex() {
        let pipeline = Arc::new(Pipeline::default());
        let dropped = Arc::<AtomicU32>::default();
        let needy = || {
            Waker::from(Arc::new(Needy {
                pipeline: pipeline.clone(),
                dropped: dropped.clone(),
            }))
        };
        let deadline = deadline_in(Duration::from_secs(10));
        let request = Arc::new(redis::cmd("PING"));
        let envelope = Content::Command(&request).by(Via::Runtime, deadline);
        let polled = |waker: &Waker| {
            let mut ticket = Box::pin(pipeline.submit(&envelope));
            let polled = ticket.as_mut().poll(&mut Context::from_waker(waker));
            assert!(polled.is_pending());
            ticket
        };
        let write = || pipeline.slots().write([], &mut Log::default(), now);
        // Left before and after the request is written.
        drop(polled(&needy()));
        let left = polled(&needy());
        write();
        drop(left);
        // Replaced by another one.
        let mut moved = polled(&needy());
        let waker = needy();
        for _ in 0..2 {
            let polled = moved.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        // Still there at the end.
        pipeline.end();
        drop((moved, waker));
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
        let mut late = Box::pin(pipeline.submit(&envelope));
        let polled = late.as_mut().poll(&mut Context::from_waker(&needy()));
        assert_eq!(polled, Poll::Ready(Outcome::NotSent));
        assert_eq!(dropped.load(Ordering::Relaxed), 5);
    }
}
