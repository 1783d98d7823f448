//! Tests locks in etcd: broken networks, killed and frozen members, ended and revoked leases, users, and other clients.

pub mod access;
mod elections;
mod foreign_clients;
mod full_disk;
mod inspect;
mod leases;
mod lost_replies;
mod stale_leader;

use std::time::{Duration, Instant};

use lock_runtime::LockGuard;

use lock_test_support::time::eventually;

/// Waits until a renewal has succeeded that was sent from now on.
fn until_renewed(guard: &LockGuard, ttl: Duration) {
    let since = Instant::now();
    eventually("the lease is renewed", || {
        let left = guard.remaining();
        !left.is_zero() && left + since.elapsed() > ttl
    });
}
