//! Locks in a PostgreSQL database: a row for each holder, with the end of its lease by the server's clock.
//!
//! Each request is one call of a function of the schema, and so one round trip and one transaction.

pub(crate) mod address;
pub(crate) mod asks;
pub(crate) mod check;
pub(crate) mod conn;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod ping;
pub(crate) mod reports;
pub(crate) mod sql;
pub(crate) mod take;
#[cfg(test)]
mod tests;
pub(crate) mod view;
pub(crate) mod wire;

use crate::engine::background_release::BackgroundRelease;
use crate::engine::inspection::Inspection;
use crate::engine::postgres::address::Address;
use crate::engine::postgres::check::inspect;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::conn::listen::listener::Listener;
use crate::engine::postgres::keys::is_stored_whole;
use crate::engine::requests::{answer_operations, answer_requests};
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
use crate::util::io_thread::IoThread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct PostgresEngine {
    io: IoThread,
    address: Arc<Address>,
    timeouts: Timeouts,
    requests: RequestSender,
    listener: Listener,
}

answer_requests! {
    PostgresEngine: own[acquire enqueue cancel release renew fencing_token prove downgrade]
}

answer_operations! { PostgresEngine: own[ping views names report reports ask recall take] }

impl Engine for PostgresEngine {
    fn in_one_request(&self, _name: &str, _other: &str) -> bool {
        true
    }

    fn on_missed_grant(&self) {
        self.listener.replace();
    }

    /// A recall names the stored name, by which the process must know its lock.
    fn hears_recalls(&self, name: &str) -> bool {
        is_stored_whole(name) && self.listener.hears()
    }

    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        self.begin_release(release);
        Ok(())
    }

    fn refuses_proof(&self) -> Option<&'static str> {
        None
    }

    fn listen(&self) {
        self.listener.begin();
    }

    fn inspect(
        &self,
        _ttl: Duration,
        replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        let timeout = self.timeouts.connect;
        Box::pin(inspect(self.io, self.address.clone(), timeout, replicas))
    }
}
