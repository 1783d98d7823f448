//! A held lock, as the watchdog sees it.

use crate::engine::error::EngineError;
use crate::engine::request::Claim;
#[cfg(feature = "testing")]
use crate::error::LostCause;
use crate::process_info::ReportedHold;
use crate::site::Site;
use crate::util::clock::Timestamp;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) trait Renewable: Send + Sync {
    fn name(&self) -> &str;

    /// Returns where the schedule records the place of the hold among those that are due at the same instant.
    fn place(&self) -> &AtomicUsize;

    /// Called at the instant for which the hold is scheduled. `now` is the same point in time. Returns the
    /// renewal that is to be sent, if one is due.
    fn on_due(self: Arc<Self>, instant: Instant, now: Timestamp) -> Option<Renewal>;

    /// Called when the server has replied to a renewal sent at `sent`; `now` is when the reply came.
    /// `is_owner`: `true` if the claim still owned the lock. Returns the part of the lease that was left, or
    /// `None` if it was not renewed.
    fn on_renewed(self: Arc<Self>, sent: Timestamp, now: Timestamp, is_owner: bool) -> Option<f64>;

    /// Called when a renewal has failed.
    fn on_renewal_failed(self: Arc<Self>, error: &EngineError);

    /// Renews the lease now, which finds out whether the lock is still held.
    fn renew_now(self: Arc<Self>);

    /// Returns `None` if the lock is lost.
    fn since(&self) -> Option<Since>;

    /// Returns since when a guard has the lock, and for which site. `None` if none has, or has picked it up
    /// yet.
    fn guard(&self) -> Option<(Instant, Option<&'static Site>)>;

    fn describe(&self) -> ReportedHold;

    /// Loses the lock, as a test demands. Returns the claim with which it was held.
    #[cfg(feature = "testing")]
    fn lose(&self, cause: LostCause) -> Claim;
}

/// Since when a lock is in the present hands. The least is that of the guard which has its lock longest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Since {
    /// A guard has it since then.
    Held(Instant),
    /// No guard has it: its process keeps it since then.
    Kept(Instant),
}

/// A renewal that is about to be sent.
pub(crate) struct Renewal {
    pub(crate) claim: Claim,
    pub(crate) timeout: Duration,
    pub(crate) hold: Arc<dyn Renewable>,
}
