//! Where requests go: to the one server, or to the node of a cluster that serves the lock.

use crate::engine::error::{EngineError, Fault};
use crate::engine::event::Ear;
use crate::engine::redis::cluster::Cluster;
use crate::engine::redis::hash_slot::slot;
use crate::engine::redis::net::batch::Request;
use crate::engine::redis::net::connection::Dialer;
use crate::engine::redis::net::per_runtime::{Home, Homes};
use crate::engine::redis::net::reconnect::Link;
use crate::engine::redis::topology::Site;
use crate::util::io_thread::after;
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
        let otherwise = match mode(&link, after(patience)).await.as_deref() {
            Some("cluster") => {
                "the server is a node of a Redis Cluster; use `redis-cluster://` instead of `redis://`"
            }
            Some("sentinel") => {
                "the server is a Sentinel; use `redis-sentinel://host:port/master` instead of `redis://`"
            }
            _ => {
                return Ok(Route::Server {
                    homes: Homes::new(&dialer, &link),
                    link,
                });
            }
        };
        Err(EngineError::new(Fault::Refused, otherwise))
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

    /// The address of the cluster's node where a lock is.
    pub(crate) fn node_of(&self, lock: &str) -> Option<Arc<str>> {
        match self {
            Route::Server { .. } => None,
            Route::Cluster(cluster) => cluster.node(slot(lock)),
        }
    }
}

/// What a server says that it is. One that doesn't say is taken at its URL's word.
async fn mode(link: &Link, until: Instant) -> Option<String> {
    let said: Vec<Value> = link.ask(redis::cmd("HELLO"), until).await.ok()?;
    let text = |value: &Value| String::from_redis_value_ref(value).ok();
    let mut said = said.chunks_exact(2);
    said.find_map(|said| (text(&said[0])? == "mode").then(|| text(&said[1]))?)
}
