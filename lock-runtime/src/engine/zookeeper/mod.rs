//! Locks in ZooKeeper.
//!
//! A lock is a node, and its claims are ephemeral children in the order of their numbers: the layout of
//! Curator's `InterProcessMutex`, which therefore queues in the same line. A claim's limit is in the name of
//! its node, so the list of the children says who holds the lock, and every client finds the same.

pub(crate) mod address;
pub(crate) mod asks;
pub(crate) mod check;
pub(crate) mod conn;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod own_report;
pub(crate) mod ping;
pub(crate) mod recalls;
pub(crate) mod recent;
pub(crate) mod reports;
pub(crate) mod take;
#[cfg(test)]
mod tests;
pub(crate) mod view;
pub(crate) mod wire;

use crate::engine::background_release::BackgroundRelease;
use crate::engine::common::batches::Batches;
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::report_pace::ReportPace;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::engine::zookeeper::lock::claims::Claims;
use crate::engine::zookeeper::own_report::OwnReport;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::process::ProcessId;
use crate::util::clock::{Clock, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The longest key, in bytes. ZooKeeper keeps all paths in memory.
const MAX_KEY: usize = 8192;
/// The longest name of a lock that is recalled: several must find room in a node.
const MAX_RECALLED: usize = 2048;

pub(crate) struct ZooKeeperEngine {
    claims: Arc<Claims>,
    address: Arc<str>,
    clock: Clock,
    started: Timestamp,
    /// Of locks that set none.
    default_ttl: Duration,
    own_report: Arc<OwnReport>,
    process: ProcessId,
    /// Whether this process hears what all are asked, and what is recalled from it, once it listens.
    asks: OnceLock<Arc<AtomicBool>>,
    recalls: OnceLock<Arc<AtomicBool>>,
    /// Texts that this process is about to leave for others.
    texts: Batches<Vec<String>, ()>,
}

answer_requests! {
    ZooKeeperEngine: own[acquire enqueue cancel release renew fencing_token downgrade drain]
}

answer_operations! { ZooKeeperEngine: own[ping views names report reports ask recall take] }

impl Engine for ZooKeeperEngine {
    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        self.leave_in_background(release);
        Ok(())
    }

    fn lease(&self, token: Token, sent: Timestamp, duration: Duration) -> Lease {
        let now = self.clock.now();
        let node = self.claims.nodes.get(token);
        let session = node.and_then(|node| node.session.lease());
        let session = session.unwrap_or_else(|| Lease::exactly(now, Duration::ZERO));
        let own = Lease::from_request(sent, duration);
        match session.remaining(now) < own.remaining(now) {
            true => session,
            false => own,
        }
    }

    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > MAX_KEY {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "it is longer than 8,192 bytes, and ZooKeeper keeps all keys in memory; use a hash of it",
            });
        }
        if options.ttl > self.claims.sessions.limits().longest_ttl() {
            return Err(LockError::InvalidOption {
                option: "ttl",
                reason: "it is longer than the ZooKeeper ensemble lets a session live without a sign of \
                         life; lower it, or raise `maxSessionTimeout` on all servers",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::Unsupported {
                operation: "replicas",
                reason: "ZooKeeper has a majority of its servers store every lock; set it to 0",
            });
        }
        Ok(())
    }

    // The log of transactions keeps every one.
    fn report_pace(&self) -> ReportPace {
        ReportPace::RARE
    }

    fn hears_recalls(&self, name: &str) -> bool {
        name.len() <= MAX_RECALLED && self.listens_for_recalls()
    }

    fn listen(&self) {
        self.begin_to_listen();
    }

    fn inspect(
        &self,
        ttl: Duration,
        _: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(self.inspect_servers(ttl))
    }
}
