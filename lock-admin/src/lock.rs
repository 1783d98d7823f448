//! A lock in use, as the page shows it.

use crate::claim::Claim;
use crate::options::Options;
use lock_runtime::{ClaimInfo, LockInfo};
use std::time::SystemTime;

/// A lock in use.
#[derive(Clone)]
pub(crate) struct Lock {
    /// Identifies its row.
    pub(crate) id: String,
    /// As it is shown.
    pub(crate) key: String,
    /// What a link to it ends with.
    pub(crate) query: String,
    pub(crate) holders: Vec<Claim>,
    /// Those of which the server does not know, and which report to hold it beside the holders.
    pub(crate) rivals: Vec<Claim>,
    pub(crate) waiters: Vec<Claim>,
    pub(crate) waiting: u64,
}

impl Lock {
    pub(crate) fn of(lock: &LockInfo, at: SystemTime, options: &Options) -> Lock {
        let claims = |all: &[ClaimInfo]| -> Vec<Claim> {
            all.iter().map(|claim| Claim::of(claim, at)).collect()
        };
        let (holders, waiters) = (claims(lock.holders()), claims(lock.waiters()));
        let token = holders.iter().chain(&waiters).map(|it| &*it.token).next();
        Lock {
            id: options.id_of(lock.key()),
            key: options.shown(lock.key()),
            query: options.query_of(lock.key(), token.unwrap_or_default()),
            holders,
            rivals: claims(lock.rivals()),
            waiters,
            waiting: lock.waiting(),
        }
    }

    /// Returns since when the one that holds it longest has it.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        self.holders.iter().filter_map(|it| it.since).min()
    }

    /// Returns the holders that a call has; the others are kept for the next one.
    pub(crate) fn in_calls(&self) -> impl Iterator<Item = &Claim> {
        self.holders.iter().filter(|it| !it.is_kept)
    }

    /// Returns `true` if a process keeps it, and no call has it or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.holders.is_empty() && self.in_calls().next().is_none() && self.waiting == 0
    }

    /// Returns the template of its holder, or of none.
    pub(crate) fn template(&self) -> &str {
        let mut templates = self.holders.iter().filter_map(|it| it.template.as_deref());
        templates.next().unwrap_or_default()
    }
}
