//! Locks on a server that compares and swaps. All of a lock is one record, and [`machine`] says what each
//! command makes of it; [`run`] carries it out on a [`Store`](crate::store::Store).
//!
//! A write that comes late does no harm, since versions never come again.

pub(crate) mod access;
pub(crate) mod asks;
mod bells;
mod check;
pub(crate) mod core;
pub(crate) mod database;
pub(crate) mod errand;
pub(crate) mod hearing;
pub(crate) mod keys;
pub(crate) mod known;
pub(crate) mod listening;
pub(crate) mod lock;
pub(crate) mod machine;
#[cfg(test)]
mod model_tests;
pub(crate) mod observer;
pub(crate) mod open;
mod ping;
mod pinned;
pub(crate) mod recalls;
pub(crate) mod record;
mod reports;
mod run;
pub(crate) mod schedule;
#[cfg(test)]
mod simulation_tests;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) mod swap;
mod take;
pub(crate) mod texts;
mod view;

use crate::engine::inspection::Inspection;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::store::core::Core;
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct StoreEngine {
    core: Arc<Core>,
    started: Timestamp,
    /// How errors and warnings name the server.
    server: Arc<str>,
    connect_timeout: Duration,
}

answer_requests! {
    StoreEngine: own[acquire enqueue cancel release renew fencing_token raise_fencing_token prove downgrade]
}

answer_operations! { StoreEngine: own[ping views names report reports ask recall take] }

impl Engine for StoreEngine {
    fn validate(&self, key: &str, options: &LockOptions) -> Result<(), LockError> {
        if key.len() > self.core.keys.longest_key() {
            return Err(LockError::InvalidKey {
                key: key.chars().take(64).collect::<String>().into(),
                reason: "with the prefix, it is longer than the 1,000 bytes that every store takes; shorten it",
            });
        }
        if options.ttl.as_millis() > u32::MAX.into() {
            return Err(LockError::InvalidOption {
                option: "ttl",
                reason: "a record of a store keeps 49 days at the most",
            });
        }
        if options.replicas > 0 {
            return Err(LockError::Unsupported {
                operation: "replicas",
                reason: "a store says nothing of its replicas; leave `replicas` at 0",
            });
        }
        Ok(())
    }

    fn counts_alone(&self) -> bool {
        true
    }

    fn refuses_proof(&self) -> Option<&'static str> {
        match &self.core.database {
            Some(database) => database.refuses(),
            None => Some("this store has no transactions; use a fencing token"),
        }
    }

    fn hears_recalls(&self, _: &str) -> bool {
        self.core.hears_recalls()
    }

    fn listen(&self) {
        self.core.listen();
    }

    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(self.check())
    }
}
