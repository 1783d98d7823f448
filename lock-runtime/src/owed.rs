//! Releases that callers' runtimes see to themselves, and a look after them.
//!
//! It costs least to wait for the answer to a background release on the runtime that sent it. But that
//! runtime may end, or be blocked for ever: what isn't settled in time the I/O thread takes over.

use crate::engine::{Claim, Token};
use crate::io::{after, instant, since};
use crate::manager::Shared;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Default)]
pub(crate) struct Owed {
    releases: Mutex<HashMap<Token, Release>>,
    some: Notify,
}

pub(crate) struct Release {
    pub(crate) claim: Claim,
    /// The lock was ours until now, as far as we know.
    pub(crate) held: bool,
    from: Instant,
}

impl Owed {
    pub(crate) fn enter(&self, claim: Claim, held: bool) {
        let mut releases = self.releases();
        if releases.is_empty() {
            self.some.notify_one();
        }
        let from = instant();
        releases.insert(claim.token, Release { claim, held, from });
    }

    /// Strikes out a release that was confirmed. False if somebody else has taken it over.
    pub(crate) fn settle(&self, token: Token) -> bool {
        self.releases().remove(&token).is_some()
    }

    /// Ends the look.
    pub(crate) fn close(&self) {
        self.some.notify_one();
    }

    fn releases(&self) -> MutexGuard<'_, HashMap<Token, Release>> {
        self.releases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes over what has been owed for longer than a command may take, as long as the manager lives.
pub(crate) async fn look_after(owed: Arc<Owed>, shared: Weak<Shared>) {
    loop {
        owed.some.notified().await;
        while !owed.releases().is_empty() {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let patience = shared.command_timeout;
            let overdue: Vec<Release> = owed
                .releases()
                .extract_if(|_, release| since(release.from) >= patience)
                .map(|(_, release)| release)
                .collect();
            for release in overdue {
                shared.take_over(release);
            }
            drop(shared);
            tokio::time::sleep_until(after(patience / 2)).await;
        }
        if shared.strong_count() == 0 {
            return;
        }
    }
}
