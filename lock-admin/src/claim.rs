//! Who holds a lock, or waits for it, as the page shows it.

use crate::text::{duration, visible};
use lock_runtime::{ClaimInfo, LeaseInfo, ProcessInfo};
use std::time::{Duration, SystemTime};

/// A holder or a waiter.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) who: Who,
    pub(crate) token: String,
    pub(crate) mode: String,
    /// By the clock of this machine; of a waiter by that of its process.
    pub(crate) since: Option<SystemTime>,
    /// No call has it: its process keeps it for the next one.
    pub(crate) is_kept: bool,
    /// The present call may have it for a shorter time.
    pub(crate) is_at_most: bool,
    pub(crate) template: Option<String>,
    pub(crate) place: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) lease: Option<LeaseInfo>,
    pub(crate) votes: Option<(usize, usize)>,
    pub(crate) callers: u64,
    /// Which of the calls of its process has the lock.
    pub(crate) handoffs: Option<u32>,
    /// For how long there has been no sign of life of its process, if that is too long.
    pub(crate) silent: Option<Duration>,
    /// It was asked to give the lock up, and has not yet.
    pub(crate) is_revoked: bool,
}

/// A process, or what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    /// Such as `orders 2.3.1`.
    pub(crate) name: String,
    /// Such as `web-7, pid 812`.
    pub(crate) place: String,
    pub(crate) id: Option<String>,
}

impl Who {
    pub(crate) fn of_process(info: &ProcessInfo) -> Who {
        let version = info.version().map(|it| format!(" {it}"));
        let host = info.host().map(|it| format!("{it}, "));
        Who {
            name: visible(&format!(
                "{}{}",
                info.service(),
                version.unwrap_or_default()
            )),
            place: visible(&format!("{}pid {}", host.unwrap_or_default(), info.pid())),
            id: Some(info.id().to_string()),
        }
    }

    fn of(claim: &ClaimInfo) -> Who {
        if let Some(info) = claim.process_info() {
            return Who::of_process(info);
        }
        let id = claim.process().map(|id| id.to_string());
        Who {
            name: match &id {
                Some(id) => format!("process {id}"),
                None => "another client".to_owned(),
            },
            place: String::new(),
            id,
        }
    }

    /// Returns all of it, as a sentence names it.
    pub(crate) fn full(&self) -> String {
        match &*self.place {
            "" => self.name.clone(),
            place => format!("{} at {place}", self.name),
        }
    }
}

impl Claim {
    pub(crate) fn of(claim: &ClaimInfo, at: SystemTime) -> Claim {
        let held = claim.held_for();
        let owned = |text: Option<&str>| text.map(visible);
        Claim {
            who: Who::of(claim),
            token: claim.token().to_owned(),
            mode: claim.mode().to_string(),
            since: held.and_then(|it| at.checked_sub(it)).or(claim.since()),
            is_kept: claim.is_kept(),
            is_at_most: held.is_none(),
            template: owned(claim.template()),
            place: owned(claim.place()),
            label: owned(claim.label()),
            lease: claim.lease(),
            votes: claim.votes(),
            callers: claim.callers().unwrap_or(1),
            handoffs: claim.handoffs(),
            silent: claim.silence(),
            is_revoked: claim.is_revoked(),
        }
    }

    /// Returns how it has the lock.
    pub(crate) fn verb(&self) -> &'static str {
        if self.is_kept { "Kept" } else { "Held" }
    }

    /// Returns what is left of its lease, in words.
    pub(crate) fn lease(&self) -> String {
        match self.lease {
            Some(LeaseInfo::Ends(left)) if self.is_kept => {
                format!("{} left, not renewed while it is kept", duration(left))
            }
            Some(LeaseInfo::Ends(left)) => format!("{} left, unless renewed", duration(left)),
            Some(LeaseInfo::Never) => "never ends".to_owned(),
            Some(LeaseInfo::WithSession) => "ends with its session".to_owned(),
            Some(_) => "unknown".to_owned(),
            None => "lost at the server".to_owned(),
        }
    }

    pub(crate) fn never_ends(&self) -> bool {
        matches!(self.lease, Some(LeaseInfo::Never))
    }
}
