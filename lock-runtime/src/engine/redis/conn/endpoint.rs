//! The server to connect to, and for how long that holds.

use crate::engine::credentials::Credentials;
use crate::engine::redis::address::Address;
use crate::engine::request::EngineFuture;
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;

/// Finds the server to connect to. Displays as an address without secrets.
pub(crate) trait Discovery: fmt::Display + Send + Sync {
    /// Returns the server to connect to now.
    fn endpoint(&self) -> EngineFuture<'_, Endpoint>;

    /// Returns those of each server that may be found.
    fn credentials(&self) -> &Credentials;

    /// Called when a connection could not be made: the servers may have changed roles.
    fn connection_failed(&self) {}
}

#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: Arc<Address>,
    /// `None` if the server never changes.
    epoch: Option<MasterEpoch>,
}

/// The time from one failover to the next, in which a server is the master.
#[derive(Clone)]
pub(crate) struct MasterEpoch {
    number: u64,
    current: watch::Receiver<u64>,
}

impl Discovery for Address {
    fn endpoint(&self) -> EngineFuture<'_, Endpoint> {
        let endpoint = Endpoint::fixed(Arc::new(self.clone()));
        Box::pin(std::future::ready(Ok(endpoint)))
    }

    fn credentials(&self) -> &Credentials {
        &self.credentials
    }
}

impl Endpoint {
    pub(crate) fn fixed(address: Arc<Address>) -> Endpoint {
        Endpoint {
            address,
            epoch: None,
        }
    }

    pub(crate) fn of_master(address: Arc<Address>, epoch: MasterEpoch) -> Endpoint {
        Endpoint {
            address,
            epoch: Some(epoch),
        }
    }

    /// Returns `true` if the server must confirm that it is the master.
    pub(crate) fn requires_master_role(&self) -> bool {
        self.epoch.is_some()
    }

    /// Returns `true` if another server is the master now: replies from this one no longer count.
    pub(crate) fn is_stale(&self) -> bool {
        self.epoch.as_ref().is_some_and(MasterEpoch::has_ended)
    }

    /// Returns the output of `work`, or `None` if the endpoint becomes stale first.
    pub(crate) async fn until_stale<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(epoch) = &self.epoch else {
            return Some(work.await);
        };
        let (mut ended, mut work) = (pin!(epoch.ended()), pin!(work));
        poll_fn(|context| match ended.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(context).map(Some),
        })
        .await
    }
}

impl MasterEpoch {
    /// Returns the epoch that `current` counts now.
    pub(crate) fn new(current: watch::Receiver<u64>) -> MasterEpoch {
        let number = *current.borrow();
        MasterEpoch { number, current }
    }

    fn has_ended(&self) -> bool {
        *self.current.borrow() != self.number
    }

    async fn ended(&self) {
        let mut current = self.current.clone();
        let ended = current.wait_for(|current| *current != self.number);
        if ended.await.is_err() {
            // The Sentinel monitor has stopped.
            pending().await
        }
    }
}
