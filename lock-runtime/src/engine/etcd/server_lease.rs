//! One lease of the server, and the share of claims in it.

use crate::engine::lease::Lease;
use crate::util::clock::Timestamp;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{elapsed_since, now};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The greatest number of claims on one lease: the server deletes all of their keys at once when it ends.
const MAX_USES: usize = 1000;

/// A lease of the server. All keys that are attached to it end with it.
pub(super) struct ServerLease {
    pub(super) id: i64,
    /// The length that was asked for.
    pub(super) seconds: u64,
    proven: Mutex<Proof>,
    uses: AtomicUsize,
    last_used: Mutex<Instant>,
    lost: AtomicBool,
    /// Held while the lease is kept alive.
    pub(super) refreshing: tokio::sync::Mutex<()>,
}

/// The last request that kept a lease alive, and what it proves.
#[derive(Clone, Copy)]
pub(super) struct Proof {
    pub(super) sent: Timestamp,
    pub(super) lease: Lease,
}

/// The share of some claims in a lease.
pub(super) struct LeaseUse {
    lease: Arc<ServerLease>,
    claims: usize,
}

impl ServerLease {
    pub(super) fn new(id: i64, seconds: u64, proof: Proof) -> ServerLease {
        ServerLease {
            id,
            seconds,
            proven: Mutex::new(proof),
            uses: AtomicUsize::new(0),
            last_used: Mutex::new(now()),
            lost: AtomicBool::new(false),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns for how long the server keeps the lease, as far as is proven.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        match self.is_lost() {
            true => Duration::ZERO,
            false => self.proof().lease.remaining(now),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Returns `true` if that was not known.
    pub(super) fn set_lost(&self) -> bool {
        !self.lost.swap(true, Ordering::AcqRel)
    }

    pub(super) fn proof(&self) -> Proof {
        *self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn prove(&self, proof: Proof) {
        *self.proven.lock().unwrap_or_else(PoisonError::into_inner) = proof;
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Returns `true` if the lease may get that number of claims more.
    pub(super) fn has_room_for(&self, claims: usize) -> bool {
        self.uses.load(Ordering::Acquire) + claims <= MAX_USES
    }

    /// Returns `true` if the lease has been without a claim for that long.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        let last = *self.last_used();
        self.uses.load(Ordering::Acquire) == 0 && elapsed_since(last) >= time
    }

    fn last_used(&self) -> MutexGuard<'_, Instant> {
        let last = self.last_used.lock();
        last.unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseUse {
    pub(super) fn of(lease: &Arc<ServerLease>, claims: usize) -> LeaseUse {
        lease.uses.fetch_add(claims, Ordering::AcqRel);
        LeaseUse {
            lease: lease.clone(),
            claims,
        }
    }

    pub(super) fn lease(&self) -> &Arc<ServerLease> {
        &self.lease
    }

    /// Returns `true` if claims of that ttl use such leases.
    pub(super) fn fits(&self, ttl: Duration) -> bool {
        self.lease.seconds == seconds_of(ttl)
    }
}

impl Drop for LeaseUse {
    fn drop(&mut self) {
        *self.lease.last_used() = now();
        self.lease.uses.fetch_sub(self.claims, Ordering::AcqRel);
    }
}

/// The server counts in seconds.
pub(super) fn seconds_of(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}
