//! Opens the engine that a configuration describes.

use crate::config::{Config, Servers, invalid};
#[cfg(feature = "etcd")]
use crate::engine::etcd;
use crate::engine::event::EventHandler;
use crate::engine::memory::MemoryEngine;
#[cfg(feature = "mysql")]
use crate::engine::mysql;
use crate::engine::opening::{OpenFuture, Opened, Opening};
#[cfg(feature = "postgres")]
use crate::engine::postgres;
#[cfg(feature = "redis")]
use crate::engine::redis;
#[cfg(feature = "sqlite")]
use crate::engine::sqlite;
#[cfg(feature = "store")]
use crate::engine::store;
use crate::engine::timeouts::Timeouts;
#[cfg(feature = "zookeeper")]
use crate::engine::zookeeper;
use crate::error::LockError;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use std::sync::Arc;

/// Opens the engine at a URL, whose scheme is the engine's.
type Open = for<'a> fn(Opening<'a>, url: &'a str) -> OpenFuture<'a>;

/// How errors and events name a store that users bring: the library does not know its address.
#[cfg(feature = "store")]
const SERVER: &str = "store";

struct Entry {
    schemes: &'static [&'static str],
    /// The cargo feature that contains the engine.
    feature: &'static str,
    /// `None` if the feature is off.
    open: Option<Open>,
}

/// All engines.
const ENGINES: &[Entry] = &[
    Entry {
        schemes: &["memory"],
        feature: "",
        open: Some(open_memory),
    },
    Entry {
        schemes: &[
            "redis",
            "rediss",
            "redis+unix",
            "redis-sentinel",
            "rediss-sentinel",
            "redis-cluster",
            "rediss-cluster",
            "valkey",
            "valkeys",
            "valkey+unix",
            "unix",
        ],
        feature: "redis",
        #[cfg(feature = "redis")]
        open: Some(redis::open::open),
        #[cfg(not(feature = "redis"))]
        open: None,
    },
    Entry {
        schemes: &["postgres", "postgresql"],
        feature: "postgres",
        #[cfg(feature = "postgres")]
        open: Some(postgres::open::open),
        #[cfg(not(feature = "postgres"))]
        open: None,
    },
    Entry {
        schemes: &["mysql", "mariadb"],
        feature: "mysql",
        #[cfg(feature = "mysql")]
        open: Some(mysql::open::open),
        #[cfg(not(feature = "mysql"))]
        open: None,
    },
    Entry {
        schemes: &["etcd", "etcds"],
        feature: "etcd",
        #[cfg(feature = "etcd")]
        open: Some(etcd::open::open),
        #[cfg(not(feature = "etcd"))]
        open: None,
    },
    Entry {
        schemes: &["zookeeper", "zookeepers"],
        feature: "zookeeper",
        #[cfg(feature = "zookeeper")]
        open: Some(zookeeper::open::open),
        #[cfg(not(feature = "zookeeper"))]
        open: None,
    },
    Entry {
        schemes: &["sqlite"],
        feature: "sqlite",
        #[cfg(feature = "sqlite")]
        open: Some(sqlite::open::open),
        #[cfg(not(feature = "sqlite"))]
        open: None,
    },
];

impl Config {
    /// Opens the engine, and returns it with its address, without secrets.
    pub(crate) async fn open(
        &self,
        io: IoThread,
        clock: Clock,
        process: ProcessId,
        handler: EventHandler,
    ) -> Result<Opened, LockError> {
        let timeouts = Timeouts::of(self);
        let opening = Opening {
            config: self,
            timeouts: timeouts.clone(),
            io,
            clock,
            process,
            handler,
        };
        let opened = match &self.servers {
            Servers::One(url) => open_of(url)?(opening, url).await,
            Servers::Quorum(urls) => open_quorum(opening, urls).await,
            #[cfg(feature = "store")]
            Servers::Store(store) => store::open::open(opening, store.clone(), None, SERVER).await,
        };
        timeouts.opened();
        opened
    }
}

fn open_of(url: &str) -> Result<Open, LockError> {
    let (entry, scheme) = entry_of(url)?;
    let missing = || missing_feature(&format!("a `{scheme}://` URL"), entry.feature);
    entry.open.ok_or_else(missing)
}

async fn open_quorum(opening: Opening<'_>, urls: &[String]) -> Result<Opened, LockError> {
    for url in urls {
        let (entry, scheme) = entry_of(url)?;
        if entry.feature != "redis" {
            return Err(invalid(&format!(
                "`{scheme}://` can't be the member of a quorum; its members are Redis servers"
            )));
        }
    }
    #[cfg(feature = "redis")]
    return redis::quorum::open::open(opening, urls).await;
    #[cfg(not(feature = "redis"))]
    {
        let _ = opening;
        Err(missing_feature("a quorum", "redis"))
    }
}

fn missing_feature(what: &str, feature: &str) -> LockError {
    invalid(&format!(
        "{what} needs the feature `{feature}` of `lock-runtime`; enable it"
    ))
}

/// Returns the engine of that URL, and the URL's scheme.
fn entry_of(url: &str) -> Result<(&'static Entry, &str), LockError> {
    let is_scheme = |scheme: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "+-".contains(c);
        scheme.chars().all(allowed)
    };
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let Some(scheme) = scheme.filter(|scheme| is_scheme(scheme)) else {
        return Err(invalid(
            "the URL has no scheme; write it like `redis://127.0.0.1:6379/0`",
        ));
    };
    let entry = ENGINES.iter().find(|it| it.schemes.contains(&scheme));
    let entry = entry.ok_or_else(|| {
        let built = ENGINES.iter().filter(|entry| entry.open.is_some());
        let known = built.flat_map(|entry| entry.schemes);
        let known: Vec<_> = known.map(|scheme| format!("`{scheme}://`")).collect();
        invalid(&format!(
            "the URL scheme `{scheme}://` is not known; known are {}",
            known.join(", ")
        ))
    })?;
    Ok((entry, scheme))
}

fn open_memory<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    let name = url.split_once("://").map_or("", |(_, name)| name);
    let memory = MemoryEngine::open(name, opening.clock, opening.handler);
    Box::pin(std::future::ready(Ok((Arc::new(memory) as _, url.into()))))
}
