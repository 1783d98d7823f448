//! Where requests go: to the one server, or to the node of a cluster that serves the lock.

use super::batch::Request;
use super::cluster::Cluster;
use super::connection::Dialer;
use super::link::Link;
use super::site::Site;
use super::slots::slot;
use super::{EngineError, Fault};
use crate::engine::Ear;
use crate::io::after;
use redis::{FromRedisValue, Value};
use tokio::time::Instant;

pub(crate) enum Route {
    Server(Box<Link>),
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
        let link = Link::connect(dialer.io, dialer).await?;
        match is_node(&link, after(patience)).await {
            true => Err(EngineError::new(
                Fault::Refused,
                "the server is a node of a Redis Cluster; use `redis-cluster://` instead of `redis://`",
            )),
            false => Ok(Route::Server(Box::new(link))),
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
            Route::Server(link) => link.ask(request, until).await,
            Route::Cluster(cluster) => cluster.ask(slot(lock), request.into(), until).await,
        }
    }

    /// On which server a lock is, and in which slot.
    pub(crate) fn kept_at(&self, lock: &str) -> (usize, u16) {
        match self {
            Route::Server(_) => (0, 0),
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
