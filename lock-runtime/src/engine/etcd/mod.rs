//! Locks in etcd, in the layout of etcd's own locks.
//!
//! Each claim is a key under the lock's name, in the order of creation. The first of them hold the lock, as
//! many as their limits allow; the others follow the line by a watch.

pub(crate) mod address;
mod asks;
pub(crate) mod check;
pub(crate) mod conn;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod own_report;
mod pages;
mod ping;
mod reports;
mod take;
#[cfg(test)]
mod tests;
mod view;
pub(crate) mod wire;

use crate::engine::etcd::check::inspect;
use crate::engine::etcd::lock::core::Core;
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::report_pace::ReportPace;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest key in bytes, so that requests stay far below the size that servers accept.
const MAX_KEY: usize = 64 << 10;

/// The longest name in bytes of a lock that shares its request with others, for the same reason, and of one
/// that is recalled.
const MAX_SHARED: usize = 2 << 10;

pub(crate) struct EtcdEngine {
    core: Arc<Core>,
}

answer_requests! {
    EtcdEngine: own[acquire enqueue cancel release renew fencing_token downgrade drain]
}

answer_operations! { EtcdEngine: own[ping views names report reports ask recall take] }

impl Engine for EtcdEngine {
    fn in_one_request(&self, name: &str, other: &str) -> bool {
        name.len().max(other.len()) <= MAX_SHARED
    }

    /// The claim's key ends with a lease of the server, which others share.
    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        let now = self.core.clock.now();
        let record = self.core.claims.find(token);
        let on_server = record.map_or(Duration::ZERO, |record| record.remaining(now));
        let asked = Lease::from_request(sent, duration).remaining(now);
        Lease::exactly(now, asked.min(on_server))
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > MAX_KEY {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "it is longer than the 64 KiB that are sensible in etcd; shorten it",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::Unsupported {
                operation: "replicas",
                reason: "etcd replicates every write to a majority of its members; leave `replicas` at 0",
            });
        }
        Ok(())
    }

    fn hears_recalls(&self, name: &str) -> bool {
        let core = &self.core;
        name.len() <= MAX_SHARED
            && core.client.present().is_some()
            && core.hears_recalls.load(Ordering::Relaxed)
    }

    // Its history keeps what is overwritten, until it is compacted.
    fn report_pace(&self) -> ReportPace {
        ReportPace::RARE
    }

    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(inspect(&self.core))
    }
}
