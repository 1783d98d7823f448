//! Releases that no caller awaits.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::request::{Acquired, Attempt, Claim};
use crate::engine::token::Token;
use crate::util::thread_end::PendingWork;
use std::sync::Arc;

/// Supervises background releases, and continues those that an engine could not finish.
pub(crate) trait ReleaseSupervisor: Send + Sync {
    /// Called when a background release begins. Either [`confirmed`](Self::confirmed) or
    /// [`unconfirmed`](Self::unconfirmed) follows, once.
    fn begun(&self);

    /// Called with the server's reply: `was_owner` is `true` if the claim owned the lock.
    fn confirmed(&self, claim: &Claim, was_owner: bool, was_held: bool);

    /// Called when no reply will come: the claim may still own the lock. `may_have_run` is `true` if the
    /// server may have executed the release.
    fn unconfirmed(self: Arc<Self>, release: BackgroundRelease, may_have_run: bool);
}

/// For requests that nothing interrupts.
#[cfg(test)]
pub(crate) struct Unused;

#[cfg(test)]
impl ReleaseSupervisor for Unused {
    fn begun(&self) {}

    fn confirmed(&self, _: &Claim, _: bool, _: bool) {}

    fn unconfirmed(self: Arc<Self>, _: BackgroundRelease, _: bool) {}
}

/// A release that no caller awaits.
pub(crate) struct BackgroundRelease {
    pub(crate) claim: Claim,
    /// `true` if the lock was held until the release, as far as this process knows.
    pub(crate) was_held: bool,
    pub(crate) pending: PendingWork,
    supervisor: Arc<dyn ReleaseSupervisor>,
}

impl BackgroundRelease {
    pub(crate) fn new(
        claim: Claim,
        was_held: bool,
        supervisor: Arc<dyn ReleaseSupervisor>,
    ) -> BackgroundRelease {
        supervisor.begun();
        BackgroundRelease {
            claim,
            was_held,
            pending: PendingWork::new(),
            supervisor,
        }
    }

    pub(crate) fn confirm(self, was_owner: bool) {
        self.supervisor
            .confirmed(&self.claim, was_owner, self.was_held);
    }

    /// Leaves the release to the supervisor.
    pub(crate) fn hand_over(self, may_have_run: bool) {
        self.supervisor.clone().unconfirmed(self, may_have_run);
    }
}

/// An acquisition under way. Unless its reply has come, dropping it hands the release of its locks over: the
/// server may grant them later.
pub(crate) struct AwaitedAcquire<'a> {
    attempt: &'a Attempt,
    token: Option<Token>,
    supervisor: &'a Arc<dyn ReleaseSupervisor>,
}

impl<'a> AwaitedAcquire<'a> {
    pub(crate) fn new(
        attempt: &'a Attempt,
        token: Token,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
    ) -> AwaitedAcquire<'a> {
        AwaitedAcquire {
            attempt,
            token: Some(token),
            supervisor,
        }
    }

    /// Takes the reply: the number of locks acquired.
    pub(crate) fn replied(
        mut self,
        reply: Result<usize, EngineError>,
    ) -> Result<Option<Acquired>, EngineError> {
        let decided = match &reply {
            Ok(_) => true,
            Err(error) => !matches!(
                error.kind,
                EngineErrorKind::Indeterminate | EngineErrorKind::NotReplicated
            ),
        };
        let token = decided.then(|| self.token.take()).flatten();
        let count = reply?;
        let token = token.filter(|_| count > 0);
        Ok(token.map(|token| Acquired::Locks { token, count }))
    }
}

impl Drop for AwaitedAcquire<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            for claim in self.attempt.claims(token) {
                BackgroundRelease::new(claim, false, self.supervisor.clone()).hand_over(false);
            }
        }
    }
}
