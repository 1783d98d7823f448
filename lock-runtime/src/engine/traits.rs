//! The trait of all engines.

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::inspection::Inspection;
use crate::engine::lease::Lease;
use crate::engine::report_pace::ReportPace;
use crate::engine::request::EngineFuture;
use crate::engine::requests::{Operations, Requests};
use crate::engine::token::Token;
use crate::engine::view::View;
use crate::error::LockError;
use crate::options::LockOptions;
use crate::util::clock::Timestamp;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A store of locks. It knows keys, tokens and times, and nothing of guards or tasks.
///
/// Its requests are those of [`Requests`] and [`Operations`]; what is here takes no round trip.
pub(crate) trait Engine: Requests + Operations {
    /// Returns the wait for the first connection, at most until the deadline, if there was none yet. Only
    /// after it the engine knows which options it supports, and in which order calls acquire several locks.
    fn first_connection(&self, _deadline: Instant) -> Option<EngineFuture<'_, ()>> {
        None
    }

    /// Returns `true` if one attempt may name both locks.
    fn in_one_request(&self, _name: &str, _other: &str) -> bool {
        false
    }

    /// Called when a poll found a grant whose event was lost: the subscription may be broken.
    fn on_missed_grant(&self) {}

    /// Returns `true` if no other manager can wait for the locks of this engine.
    fn is_alone(&self) -> bool {
        false
    }

    /// Returns `true` if this process hears at present when another one enters the queue of the lock of that
    /// name, which a [recallable](Token::recallable) token of this process holds alone, as
    /// [`EngineEvent::Recalled`](crate::engine::event::EngineEvent::Recalled). Starts what that needs. Must
    /// be cheap.
    ///
    /// The event is a hint: it may come twice, before the reply to the acquisition, and after the release.
    /// One that is lost is repeated as long as the other one waits.
    fn hears_recalls(&self, _name: &str) -> bool {
        false
    }

    /// Begins to release the lock, without a task. Returns the release if that is not possible now.
    fn release_in_background(&self, release: BackgroundRelease) -> Result<(), BackgroundRelease> {
        Err(release)
    }

    /// Returns the server and the slot that store a lock. Locks of one shard are best renewed together; a
    /// slow server must not delay the renewals of another.
    fn shard_of(&self, _name: &str) -> Shard {
        Shard { server: 0, slot: 0 }
    }

    /// Returns `true` if each lock has its own counter of fencing tokens; else those of a slot share one.
    fn counts_alone(&self) -> bool {
        false
    }

    /// Returns the address of the node that stores a lock, if there are several nodes.
    fn node_of(&self, _name: &str) -> Option<Arc<str>> {
        None
    }

    /// Returns the reason if a transaction cannot prove the locks of this engine.
    #[cfg(any(feature = "postgres", feature = "store"))]
    fn refuses_proof(&self) -> Option<&'static str> {
        Some(
            "only a lock in PostgreSQL, MySQL or MariaDB can be proven in a transaction; use a fencing token",
        )
    }

    /// Returns the lease that a request proves which was sent at `sent`, and after which the token holds its
    /// lock for `duration`. An engine whose locks share a lease of the server returns what is left of that.
    fn lease(&self, _token: Token, sent: Timestamp, duration: Duration) -> Lease {
        Lease::from_request(sent, duration)
    }

    /// Checks that this engine can keep a lock with that key and these options.
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`], [`LockError::InvalidOption`] or [`LockError::Unsupported`], with what to
    /// do.
    fn validate(&self, _key: &str, _options: &LockOptions) -> Result<(), LockError> {
        Ok(())
    }

    /// Returns the reason if this engine cannot turn an exclusive hold into a shared one.
    fn refuses_downgrade(&self) -> Option<&'static str> {
        None
    }

    /// Returns `true` if the server finds the names of locks without reading all of its keys.
    fn has_index(&self) -> bool {
        true
    }

    /// Returns when processes report.
    fn report_pace(&self) -> ReportPace {
        ReportPace::REGULAR
    }

    /// Begins to receive what others [ask](Operations::ask), if it does not yet, and goes on until the engine
    /// is dropped. A process that has waited receives it anyway.
    fn listen(&self) {}

    /// Inspects the servers for settings that endanger locks of that ttl and number of replicas.
    fn inspect(
        &self,
        _ttl: Duration,
        _replicas: u32,
    ) -> Pin<Box<dyn Future<Output = Inspection> + Send + '_>> {
        Box::pin(std::future::ready(Inspection::default()))
    }
}

impl dyn Engine {
    /// Looks at one lock.
    pub(crate) async fn view(
        &self,
        name: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<View, EngineError> {
        let views = self.views(&[name.into()], most, deadline).await?;
        views.into_iter().next().ok_or_else(|| {
            let words = "the reply has no lock";
            EngineError::new(EngineErrorKind::NotReady, words)
        })
    }
}

/// The server and the slot that store a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Shard {
    /// Identifies the server within the process.
    pub(crate) server: usize,
    pub(crate) slot: u16,
}
