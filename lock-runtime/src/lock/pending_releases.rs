//! Background releases that were sent from a runtime's own connection.
//!
//! Nobody needs their answers at once, so that no task is woken for them: the I/O thread collects them
//! from time to time, and takes over what its runtime has not brought to an end, since it was blocked or
//! has gone.

use crate::api::manager::Shared;
use crate::engine::request::Claim;
use crate::lock::release::Counted;
use crate::util::io_thread::{after, instant, since, timeout_at};
use crate::util::panics::catch;
use crate::util::sync::{Mutex, MutexGuard};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often answers are collected while there are any to come.
const ROUND: Duration = Duration::from_millis(50);

/// How soon answers are looked for again where there is no room.
const PAUSE: Duration = Duration::from_millis(1);

/// So many releases may be owed; the driver of a connection takes no more without being waited for.
const MOST: usize = if cfg!(test) { 2 } else { 32 };

#[derive(Default)]
pub(crate) struct Owed {
    releases: Mutex<Vec<Release>>,
    /// When answers were looked for last; held while they are.
    looked: Mutex<Option<Instant>>,
    hurry: Notify,
}

pub(crate) struct Release {
    pub(crate) claim: Claim,
    /// The lock was ours until now, as far as we know.
    pub(crate) held: bool,
    from: Instant,
    /// Whether it was confirmed.
    answer: Pin<Box<dyn Future<Output = bool> + Send>>,
    _counted: Counted,
}

impl Owed {
    /// Whether one more may be owed, after a look at those that are.
    pub(crate) fn has_room(&self, shared: &Arc<Shared>) -> bool {
        if self.releases().len() < MOST {
            return true;
        }
        // Many that come at once don't look again and again for answers that can't be there yet.
        let looked = *self.looked();
        if looked.is_some_and(|looked| since(looked) < PAUSE) {
            return false;
        }
        self.round(shared);
        self.releases().len() < MOST
    }

    /// Sends the release.
    pub(crate) fn enter(
        &self,
        counted: Counted,
        claim: Claim,
        held: bool,
        release: impl Future<Output = bool> + Send + 'static,
    ) {
        let mut release = Release {
            _counted: counted,
            claim,
            held,
            from: instant(),
            // Many are polled in one go.
            answer: Box::pin(tokio::task::unconstrained(release)),
        };
        if release.is_confirmed() == Poll::Ready(true) {
            return;
        }
        let mut releases = self.releases();
        if releases.is_empty() {
            self.hurry.notify_one();
        }
        releases.push(release);
    }

    /// Has the answers collected now.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Looks for answers. False if none is missing any more.
    fn round(&self, shared: &Arc<Shared>) -> bool {
        let mut looked = self.looked();
        *looked = Some(instant());
        let (mut owing, mut over) = (Vec::new(), Vec::new());
        for mut release in std::mem::take(&mut *self.releases()) {
            match release.is_confirmed() {
                Poll::Pending if since(release.from) < shared.command_timeout => {
                    owing.push(release);
                }
                confirmed => over.push((release, confirmed == Poll::Ready(true))),
            }
        }
        let mut releases = self.releases();
        releases.append(&mut owing);
        let missing = !releases.is_empty();
        drop((releases, looked));
        // To count a release as over wakes a shutdown, which must not happen under a lock.
        for (release, confirmed) in over {
            if !confirmed {
                shared.take_over(release.claim.clone(), release.held);
            }
        }
        missing
    }

    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.releases().is_empty()
    }

    fn looked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn releases(&self) -> MutexGuard<'_, Vec<Release>> {
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Release {
    fn is_confirmed(&mut self) -> Poll<bool> {
        let mut context = Context::from_waker(Waker::noop());
        catch(|| self.answer.as_mut().poll(&mut context)).unwrap_or(Poll::Ready(false))
    }
}

/// Collects answers as long as the manager lives.
pub(crate) async fn collect(owed: Arc<Owed>, shared: Weak<Shared>) {
    loop {
        owed.hurry.notified().await;
        loop {
            match shared.upgrade() {
                Some(shared) if owed.round(&shared) => {}
                Some(_) => break,
                None => return,
            }
            let _ = timeout_at(after(ROUND), owed.hurry.notified()).await;
        }
    }
}
