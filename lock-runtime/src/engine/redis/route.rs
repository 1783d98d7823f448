//! Where requests go: to the one server, or to the node of a cluster that serves the lock.

use super::batch::Request;
use super::cluster::Cluster;
use super::connection::Dialer;
use super::home::{Home, Homes};
use super::link::Link;
use super::site::Site;
use super::slots::slot;
use super::{EngineError, Fault};
use crate::engine::Ear;
use crate::io::after;
use redis::{Cmd, FromRedisValue, Value};
use std::sync::Arc;
use tokio::time::Instant;

pub(crate) enum Route {
    Server { link: Arc<Link>, homes: Arc<Homes> },
    Cluster(Cluster),
}

impl Route {
    /// Connects, and finds out whether the site is what it is taken for.
    pub(crate) async fn connect(dialer: Dialer, ear: Ear) -> Result<Route, EngineError> {
        if let Site::Cluster(contacts) = &dialer.site {
            let cluster = Cluster::connect(contacts.clone(), dialer, ear).await?;
            return Ok(Route::Cluster(cluster));
        }
        let patience = dialer.timeouts.command;
        let link = Arc::new(Link::connect(dialer.io, dialer.clone()).await?);
        match is_node(&link, after(patience)).await {
            true => Err(EngineError::new(
                Fault::Refused,
                "the server is a node of a Redis Cluster; use `redis-cluster://` instead of `redis://`",
            )),
            false => Ok(Route::Server {
                homes: Homes::new(&dialer, &link),
                link,
            }),
        }
    }

    /// Sends a request about that lock, and waits for its answer until then.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        lock: &str,
        request: impl Into<Request>,
        until: Instant,
    ) -> Result<T, EngineError> {
        match self {
            Route::Server { link, .. } => link.ask(request, until).await,
            Route::Cluster(cluster) => cluster.ask(slot(lock), request.into(), until).await,
        }
    }

    /// The home of the calling runtime where that lock is, if it has one.
    pub(crate) fn own_home(&self, lock: &str) -> Option<Arc<Home>> {
        match self {
            Route::Server { homes, .. } => homes.own(),
            Route::Cluster(cluster) => cluster.homes(slot(lock))?.own(),
        }
    }

    /// Sends a command about that lock from a home, and waits for its answer until then.
    pub(crate) async fn ask_from<T: FromRedisValue>(
        &self,
        home: &Home,
        lock: &str,
        command: Cmd,
        until: Instant,
    ) -> Result<T, EngineError> {
        match self {
            Route::Server { .. } => home.ask(command, until).await,
            Route::Cluster(cluster) => cluster.ask_from(home, slot(lock), command, until).await,
        }
    }

    /// Has nothing more be carried out of what was sent about that lock from a home.
    pub(crate) async fn silence(
        &self,
        home: &Home,
        lock: &str,
        until: Instant,
    ) -> Result<(), EngineError> {
        match self {
            // A node that doesn't serve the lock any more refuses by itself.
            Route::Cluster(cluster) if !cluster.is_served_beside(home, slot(lock)) => Ok(()),
            _ => home.silence(until).await,
        }
    }

    /// On which server a lock is, and in which slot.
    pub(crate) fn kept_at(&self, lock: &str) -> (usize, u16) {
        match self {
            Route::Server { .. } => (0, 0),
            Route::Cluster(cluster) => {
                let slot = slot(lock);
                (cluster.server(slot), slot)
            }
        }
    }
}

/// Whether a server says that it belongs to a cluster. One that doesn't say is taken at its URL's word.
async fn is_node(link: &Link, until: Instant) -> bool {
    let said: Result<Vec<Value>, _> = link.ask(redis::cmd("HELLO"), until).await;
    let said = said.unwrap_or_default();
    let text = |value: &Value| String::from_redis_value_ref(value).unwrap_or_default();
    said.chunks_exact(2)
        .any(|said| text(&said[0]) == "mode" && text(&said[1]) == "cluster")
}
