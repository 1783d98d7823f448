//! One lease of the server, and the share of claims in it.

use crate::engine::lease::Lease;
use crate::util::clock::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The greatest number of claims on one lease: the server deletes all of their keys at once when it ends.
const MAX_USES: usize = 1000;

/// A lease of the server. All keys that are attached to it end with it.
pub(crate) struct ServerLease {
    pub(crate) id: i64,
    /// The length that was asked for.
    pub(crate) seconds: u64,
    /// When it was asked for.
    sent: Timestamp,
    /// No member ends it before that, whether it is kept alive or not.
    proof: Lease,
    uses: AtomicUsize,
    lost: AtomicBool,
}

/// The share of some claims in a lease.
pub(crate) struct LeaseUse {
    lease: Arc<ServerLease>,
    claims: usize,
}

impl ServerLease {
    /// Returns the lease that a request sent at `sent` has granted. Members may round its length up, each by
    /// its own settings.
    pub(crate) fn new(id: i64, seconds: u64, sent: Timestamp) -> ServerLease {
        ServerLease {
            id,
            seconds,
            sent,
            proof: Lease::from_request(sent, Duration::from_secs(seconds)),
            uses: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
        }
    }

    /// Returns for how long the server keeps the lease, as far as is proven.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        match self.is_lost() {
            true => Duration::ZERO,
            false => self.proof.remaining(now),
        }
    }

    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        now.elapsed_since(self.sent)
    }

    /// Returns `true` if the server has said that there is no such lease.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Returns `true` if that was not known.
    pub(crate) fn set_lost(&self) -> bool {
        !self.lost.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Returns `true` if new claims may join the lease.
    pub(crate) fn is_young(&self, now: Timestamp) -> bool {
        !self.is_lost() && self.age(now) <= self.ttl() / 3
    }

    /// Returns `true` if the lease may get that number of claims more.
    pub(crate) fn has_room_for(&self, claims: usize) -> bool {
        self.uses.load(Ordering::Acquire) + claims <= MAX_USES
    }

    pub(crate) fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }
}

impl LeaseUse {
    pub(crate) fn of(lease: &Arc<ServerLease>, claims: usize) -> LeaseUse {
        lease.uses.fetch_add(claims, Ordering::AcqRel);
        LeaseUse {
            lease: lease.clone(),
            claims,
        }
    }

    pub(crate) fn lease(&self) -> &Arc<ServerLease> {
        &self.lease
    }

    /// Returns `true` if claims of that ttl use such leases.
    pub(crate) fn fits(&self, ttl: Duration) -> bool {
        self.lease.seconds == seconds_of(ttl)
    }
}

impl Drop for LeaseUse {
    fn drop(&mut self) {
        self.lease.uses.fetch_sub(self.claims, Ordering::AcqRel);
    }
}

/// The server counts in seconds.
pub(crate) fn seconds_of(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}
