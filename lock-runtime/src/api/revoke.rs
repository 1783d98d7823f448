//! Getting a lock back.

use crate::error::LockError;
use crate::lock::inner::Manager;
use crate::lock::revoke::{RevokeOptions, Target, revoke};
use crate::lock_info::ClaimInfo;
use crate::revocation::Revocation;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A lock that is to be revoked: see [`LockManager::revoke`](crate::LockManager::revoke).
#[must_use = "nothing happens before it is awaited"]
pub struct Revoke {
    inner: Arc<Manager>,
    key: String,
    options: RevokeOptions,
}

impl Revoke {
    pub(crate) fn new(inner: Arc<Manager>, key: String) -> Revoke {
        let by = inner.context.reporter.name();
        Revoke {
            inner,
            key,
            options: RevokeOptions {
                target: Target::Sole,
                by,
                reason: String::new(),
                grace: Duration::from_secs(2),
                force: false,
            },
        }
    }

    /// Says why, for the logs of both processes and [`LockEvent::Revoked`](crate::LockEvent::Revoked). 200
    /// bytes are sent.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.options.reason = reason.into();
        self
    }

    /// Says who wants the lock back. The default is this process.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.options.by = by.into();
        self
    }

    /// Means this holder alone, as [`inspect`](crate::LockManager::inspect) found it, and the body that its
    /// process had [reported](ClaimInfo::handoffs): not another one to which the process has handed the lock
    /// on since. If it had not reported, the body is meant that has the lock when the process hears.
    pub fn holder(self, holder: &ClaimInfo) -> Self {
        let handoffs = holder.handoffs();
        let this = self.token(holder.token());
        match handoffs {
            Some(handoffs) => this.handoffs(handoffs),
            None => this,
        }
    }

    /// Means the holder with that [token](ClaimInfo::token) alone.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.options.target = Target::Token(token.into().into(), None);
        self
    }

    /// Means no body to which the process of the holder with that [token](Self::token) has handed the lock on
    /// after so many [handoffs](ClaimInfo::handoffs). Without a token it means nothing.
    pub fn handoffs(mut self, handoffs: u32) -> Self {
        if let Target::Token(_, meant) = &mut self.options.target {
            *meant = Some(handoffs);
        }
        self
    }

    /// Means all that share the lock. Otherwise a lock that several share is refused.
    pub fn all(mut self) -> Self {
        self.options.target = Target::All;
        self
    }

    /// Sets for how long the holders may take to stop. The default is 2 s. Once they have the lock no more,
    /// the word of their processes that their bodies have stopped is awaited for another command timeout.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// Takes the lock from holders that do not stop within the grace, on the server: **then two bodies may
    /// run at once**, for a third of the old holder's ttl and a command timeout, or as long as its body takes
    /// to its next await, or its process is stopped. Writes with a [fencing
    /// token](crate::LockGuard::fencing_token) are safe: see [`Revocation::Taken`].
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }
}

impl IntoFuture for Revoke {
    type Output = Result<Revocation, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { revoke(&self.inner.context, &self.key, &self.options).await })
    }
}
