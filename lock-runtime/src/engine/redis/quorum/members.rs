//! The members of a quorum: requests to all of them, and their deadlines.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::quorum::release_hints::ReleaseHints;
use crate::engine::redis::quorum::replies::Replies;
use crate::engine::request::EngineFuture;
use crate::engine::retry::Retry;
use crate::util::io_thread::IoThread;
use crate::util::time::{deadline_in, now};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

/// How long a request waits for the other members once a majority has replied.
const STRAGGLER_GRACE: Duration = Duration::from_millis(100);

pub(crate) struct Members {
    pub(crate) io: IoThread,
    pub(crate) list: Vec<Arc<dyn Member>>,
    pub(crate) hints: Arc<ReleaseHints>,
    /// The longest time that a member may take to reply.
    pub(crate) timeout: Duration,
}

impl Members {
    pub(crate) fn new(
        io: IoThread,
        list: Vec<Arc<dyn Member>>,
        hints: Arc<ReleaseHints>,
        timeout: Duration,
    ) -> Members {
        Members {
            io,
            list,
            hints,
            timeout,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the longest time that a request to a member about a lock with that ttl may take: the lease
    /// lasts much longer.
    pub(crate) fn request_timeout(&self, ttl: Duration) -> Duration {
        self.timeout.min(ttl / 10)
    }

    pub(crate) fn request_deadline(&self, ttl: Duration) -> Instant {
        deadline_in(self.request_timeout(ttl))
    }

    /// Runs work on the I/O thread. It runs to its end even if the caller no longer waits.
    pub(crate) async fn run_on_io_thread<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Result<T, EngineError> {
        // The work has a deadline of its own. If it panics, its requests may have been sent.
        let panicked = |panic| Err(EngineError::new(EngineErrorKind::Indeterminate, panic));
        self.io.spawn(work).await.unwrap_or_else(panicked)
    }

    /// Repeats a request until it succeeds, or until the deadline. `note` is called with each failure.
    pub(crate) async fn retry<'a, T>(
        &self,
        deadline: Instant,
        question: impl Fn() -> EngineFuture<'a, T>,
        note: impl Fn(&EngineError),
    ) -> Result<T, EngineError> {
        let mut pauses = Retry::default();
        loop {
            let error = match question().await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let next = now() + pauses.pause_after(&error);
            if next >= deadline {
                return Err(error);
            }
            note(&error);
            self.io.sleep_until(next).await;
        }
    }

    /// Sends a request to every member at once. It runs to its end even if the caller no longer waits.
    pub(crate) fn ask_all<T, F>(
        self: &Arc<Self>,
        question: impl Fn(usize) -> F,
    ) -> UnboundedReceiver<(usize, T)>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, replies) = unbounded_channel();
        for member in 0..self.count() {
            let (question, sender) = (question(member), sender.clone());
            self.io.spawn(async move {
                let reply = question.await;
                let _ = sender.send((member, reply));
            });
        }
        replies
    }

    /// Collects replies until they decide, all have arrived, or the deadline passes.
    pub(crate) async fn collect<T>(
        &self,
        mut arriving: UnboundedReceiver<(usize, T)>,
        deadline: Instant,
        mut read: impl FnMut(T) -> Result<bool, EngineError>,
    ) -> Replies {
        let mut replies = Replies::new(self.count());
        while replies.decided().is_none() {
            match self.io.timeout_at(deadline, arriving.recv()).await {
                Ok(Some((member, reply))) => replies.record(member, read(reply)),
                _ => break,
            }
        }
        replies
    }

    /// Collects the replies of those that succeed, also those that come a moment after a majority's. Fails
    /// unless a majority succeeds; `did` says for the error what a member did that has.
    pub(crate) async fn gather<T>(
        &self,
        mut arriving: UnboundedReceiver<(usize, Result<T, EngineError>)>,
        deadline: Instant,
        did: &'static str,
    ) -> Result<Vec<T>, EngineError> {
        let (mut replies, mut found) = (Replies::new(self.count()), Vec::new());
        let mut wait_until = deadline;
        while let Ok(Some((member, reply))) = self.io.timeout_at(wait_until, arriving.recv()).await
        {
            replies.record(member, reply.as_ref().map(|_| true).map_err(Clone::clone));
            found.extend(reply);
            // The other reachable members will have replied by then.
            if replies.decided().is_some() {
                wait_until = wait_until.min(deadline_in(STRAGGLER_GRACE));
            }
        }
        match replies.decided() {
            Some(_) => Ok(found),
            None => Err(replies.error(&self.list, did, "")),
        }
    }

    /// Records whether a member currently replies.
    pub(crate) fn record_reachability<T>(&self, member: usize, reply: &Result<T, EngineError>) {
        let absent = |error: &EngineError| {
            matches!(
                error.kind,
                EngineErrorKind::NotConnected | EngineErrorKind::Indeterminate
            )
        };
        let present = !reply.as_ref().is_err_and(absent);
        self.hints.set_reachable(member, present);
    }
}
