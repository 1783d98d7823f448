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
pub(crate) mod operations;
pub(crate) mod ping;
pub(crate) mod reports;
pub(crate) mod sql;
pub(crate) mod take;
#[cfg(test)]
mod tests;
pub(crate) mod view;
pub(crate) mod wire;

use crate::engine::background_release::{BackgroundRelease, ReleaseSupervisor};
use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::postgres::address::Address;
use crate::engine::postgres::check::inspect;
use crate::engine::postgres::conn::batch::sender::RequestSender;
use crate::engine::postgres::conn::listen::listener::Listener;
use crate::engine::postgres::keys::is_stored_whole;
use crate::engine::postgres::lock::acquire::acquire;
use crate::engine::postgres::lock::downgrade::downgrade;
use crate::engine::postgres::lock::fencing::fencing_token;
use crate::engine::postgres::lock::release::{release, release_in_background};
use crate::engine::postgres::lock::renew::renew;
use crate::engine::postgres::lock::transaction_proof::prove;
use crate::engine::postgres::lock::wait::enqueue;
use crate::engine::request::{Acquired, Attempt, Claim, EngineFuture, EnqueueReply, ServerTime};
use crate::engine::timeouts::Timeouts;
use crate::engine::token::Token;
use crate::engine::traits::Engine;
use crate::transaction_proof::TransactionProof;
use crate::util::io_thread::IoThread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct PostgresEngine {
    io: IoThread,
    address: Arc<Address>,
    timeouts: Timeouts,
    requests: RequestSender,
    listener: Listener,
}

impl Engine for PostgresEngine {
    fn acquire<'a>(
        &'a self,
        attempt: &'a Attempt,
        supervisor: &'a Arc<dyn ReleaseSupervisor>,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Acquired>> {
        Box::pin(acquire(&self.requests, attempt, supervisor, deadline))
    }

    fn in_one_request(&self, _name: &str, _other: &str) -> bool {
        true
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        valid_until: Option<ServerTime>,
        deadline: Instant,
    ) -> EngineFuture<'a, EnqueueReply> {
        Box::pin(async move {
            let channel = self.listener.channel().await;
            let channel = channel.as_deref();
            let (requests, schema) = (&self.requests, &self.address.schema);
            enqueue(requests, schema, claim, channel, valid_until, deadline).await
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        _in_flight: bool,
        deadline: Instant,
    ) -> EngineFuture<'a, bool> {
        Box::pin(release(&self.requests, claim, true, deadline))
    }

    fn on_missed_grant(&self) {
        self.listener.replace();
    }

    /// A recall tells the stored name, by which the process must know its lock.
    fn hears_recalls(&self, name: &str) -> bool {
        is_stored_whole(name) && self.listener.hears()
    }

    fn release<'a>(&'a self, claim: &'a Claim, deadline: Instant) -> EngineFuture<'a, bool> {
        Box::pin(release(&self.requests, claim, false, deadline))
    }

    fn release_in_background(
        &self,
        background: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        release_in_background(&self.requests, background);
        Ok(())
    }

    fn renew<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Vec<Result<bool, EngineError>>> {
        Box::pin(async move { Ok(renew(&self.requests, claims, deadline).await) })
    }

    fn fencing_token<'a>(
        &'a self,
        claim: &'a Claim,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<u64>> {
        Box::pin(fencing_token(&self.requests, claim, deadline))
    }

    fn prove<'a>(
        &'a self,
        claims: &'a [Claim],
        deadline: Instant,
    ) -> EngineFuture<'a, Option<TransactionProof>> {
        Box::pin(prove(
            &self.requests,
            &self.address.schema,
            claims,
            deadline,
        ))
    }

    fn refuses_proof(&self) -> Option<&'static str> {
        None
    }

    fn downgrade<'a>(
        &'a self,
        claim: &'a Claim,
        to: Token,
        deadline: Instant,
    ) -> EngineFuture<'a, Option<Duration>> {
        Box::pin(downgrade(&self.requests, claim, to, deadline))
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
