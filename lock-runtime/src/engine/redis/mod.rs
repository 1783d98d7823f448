//! Locks on Redis: on one server, on the master that Sentinels name, or on the nodes of a cluster.
//!
//! A lock is a plain string: `<prefix><key>` stores its holder's token and expires after the ttl, so it
//! interoperates with every client that uses `SET NX PX` and compare-and-delete.

pub(crate) mod address;
pub(crate) mod asks;
pub(crate) mod check;
pub(crate) mod commands;
pub(crate) mod conn;
pub(crate) mod hash_slot;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod ping;
pub(crate) mod quorum;
pub(crate) mod reports;
pub(crate) mod scripts;
pub(crate) mod take;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod topology;
pub(crate) mod view;
pub(crate) mod vote;
pub(crate) mod wire;

use crate::engine::background_release::BackgroundRelease;
use crate::engine::inspection::Inspection;
use crate::engine::redis::check::Inspector;
use crate::engine::redis::conn::subscription::Subscription;
use crate::engine::redis::keys::Keys;
use crate::engine::redis::scripts::Scripts;
use crate::engine::redis::topology::router::Router;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::traits::{Engine, Shard};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The locks of one deployment.
pub(crate) struct RedisEngine {
    pub(crate) router: Router,
    pub(crate) scripts: Arc<Scripts>,
    pub(crate) keys: Keys,
    pub(crate) subscription: Subscription,
    pub(crate) inspector: Inspector,
}

answer_requests! {
    RedisEngine:
    own[acquire enqueue cancel release renew fencing_token raise_fencing_token downgrade]
}

answer_operations! { RedisEngine: own[ping views names report reports ask recall take] }

impl Engine for RedisEngine {
    fn in_one_request(&self, name: &str, other: &str) -> bool {
        self.shard_of(name) == self.shard_of(other)
    }

    fn on_missed_grant(&self) {
        self.subscription.resubscribe();
    }

    fn hears_recalls(&self, _: &str) -> bool {
        self.subscription.hears_recalls()
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        self.router.release_in_background(release)
    }

    fn shard_of(&self, name: &str) -> Shard {
        self.router.shard_of(name)
    }

    fn node_of(&self, name: &str) -> Option<Arc<str>> {
        self.router.node_of(name)
    }

    fn has_index(&self) -> bool {
        false
    }

    fn listen(&self) {
        self.subscription.begin();
    }

    fn inspect(
        &self,
        ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(self.inspect_all(ttl, replicas))
    }
}
