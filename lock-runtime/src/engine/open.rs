//! Opens the engine that a configuration describes.

use crate::config::{Config, Servers, invalid};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::member::Member;
use crate::engine::memory::MemoryEngine;
use crate::engine::quorum::QuorumEngine;
use crate::engine::quorum::release_hints::ReleaseHints;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::cluster::seeds::SeedNodes;
use crate::engine::redis::member::RedisMember;
use crate::engine::redis::net::target::{AuthOptions, Target};
use crate::engine::redis::sentinel::Sentinels;
use crate::engine::redis::topology::Topology;
use crate::engine::timeouts::Timeouts;
use crate::engine::traits::Engine;
use crate::error::LockError;
use crate::util::io_thread::IoThread;
use std::collections::HashSet;
use std::sync::Arc;

impl Config {
    /// Opens the engine, and returns it with its address, without secrets.
    pub(crate) async fn open(
        &self,
        io: IoThread,
        handler: EventHandler,
    ) -> Result<(Arc<dyn Engine>, Arc<str>), LockError> {
        match &self.servers {
            Servers::Quorum(urls) => self.open_quorum(io, urls, handler).await,
            Servers::One(url) => match url.split_once("://") {
                Some(("memory", name)) => {
                    let memory = MemoryEngine::open(name, handler);
                    Ok((Arc::new(memory), url.as_str().into()))
                }
                _ => self.open_redis(io, url, handler).await,
            },
        }
    }

    /// Returns the topology of the deployment at that URL.
    fn topology(&self, io: IoThread, url: &str) -> Result<Topology, LockError> {
        let auth = AuthOptions {
            credentials: self.credentials.as_ref(),
            #[cfg(feature = "tls")]
            root_certificate: self.root_certificate.as_deref(),
        };
        match url.split_once("://") {
            Some(("redis-sentinel" | "rediss-sentinel", _)) => {
                let credentials = self.sentinel_credentials.as_ref();
                let sentinels = Sentinels::start(io, url, &auth, credentials, self.timeouts())?;
                Ok(Topology::Sentinel(Arc::new(sentinels)))
            }
            Some(("redis-cluster" | "rediss-cluster", _)) => Ok(Topology::Cluster(Arc::new(
                SeedNodes::parse_url(url, &auth)?,
            ))),
            Some((
                "redis" | "rediss" | "valkey" | "valkeys" | "redis+unix" | "valkey+unix" | "unix",
                _,
            )) => Ok(Topology::Standalone(Arc::new(Target::parse(url, &auth)?))),
            Some(("memory", _)) => Err(invalid(
                "`memory://` can't be the member of a quorum; its members are servers",
            )),
            Some((scheme, _))
                if scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "+-".contains(c)) =>
            {
                Err(invalid(&format!(
                    "the URL scheme `{scheme}://` is not known; \
                     use `redis://`, `rediss://`, `redis+unix://`, `redis-sentinel://`, \
                     `redis-cluster://` or `memory://`"
                )))
            }
            _ => Err(invalid(
                "the URL has no scheme; write it like `redis://127.0.0.1:6379/0`",
            )),
        }
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts {
            connect: self.connect_timeout,
            command: self.command_timeout,
        }
    }

    async fn open_redis(
        &self,
        io: IoThread,
        url: &str,
        handler: EventHandler,
    ) -> Result<(Arc<dyn Engine>, Arc<str>), LockError> {
        let topology = self.topology(io, url)?;
        let server: Arc<str> = topology.to_string().into();
        let is_sentinel = matches!(topology, Topology::Sentinel(_));
        match RedisEngine::connect(io, topology, self.timeouts(), &self.prefix, handler).await {
            Ok(redis) => Ok((Arc::new(redis), server)),
            Err(error) => Err(connect_error(server, error, |server, error| {
                if is_sentinel {
                    format!(
                        "`{server}` can't be used: {error}; check the name of the master, and user \
                         and password of the server and of the Sentinels"
                    )
                } else if error.source.is::<redis::RedisError>() {
                    format!(
                        "`{server}` rejected the connection: {error}; check the user, the password and \
                         the database"
                    )
                } else {
                    format!("`{server}` can't be used: {error}")
                }
            })),
        }
    }

    async fn open_quorum(
        &self,
        io: IoThread,
        urls: &[String],
        handler: EventHandler,
    ) -> Result<(Arc<dyn Engine>, Arc<str>), LockError> {
        validate_quorum_size(urls)?;
        let topologies: Result<Vec<Topology>, LockError> =
            urls.iter().map(|url| self.topology(io, url)).collect();
        let topologies = topologies?;
        let names: Vec<String> = topologies.iter().map(Topology::to_string).collect();
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(invalid(&format!(
                "`{twice}` is in the quorum twice; its members must be independent servers"
            )));
        }
        let server: Arc<str> = names.join(", ").into();
        let timeouts = self.timeouts();
        let hints = ReleaseHints::new(topologies.len(), handler);
        let member = |(number, topology)| {
            let handler = hints.handler(number);
            let member = RedisMember::open(io, topology, timeouts, &self.prefix, handler);
            Arc::new(member) as Arc<dyn Member>
        };
        let members = topologies.into_iter().enumerate().map(member).collect();
        match QuorumEngine::connect(io, members, hints, timeouts).await {
            Ok(quorum) => Ok((Arc::new(quorum), server)),
            Err(error) => Err(connect_error(server, error, |_, error| {
                format!("the quorum can't be used: {error}")
            })),
        }
    }
}

/// Returns the error of a connection that could not be made. A rejected one is a matter of the configuration;
/// `reason` words it.
fn connect_error(
    server: Arc<str>,
    error: EngineError,
    reason: impl FnOnce(&str, &EngineError) -> String,
) -> LockError {
    match error.kind {
        EngineErrorKind::Rejected => LockError::InvalidConfig {
            reason: reason(&server, &error),
            source: Some(error.source),
        },
        _ => LockError::Unavailable {
            key: None,
            server,
            source: error.source,
        },
    }
}

fn validate_quorum_size(urls: &[String]) -> Result<(), LockError> {
    match urls.len() {
        members @ 0..=2 => Err(invalid(&format!(
            "a quorum of {members} survives the loss of no member; give it at least 3 independent \
             servers, or use `Config::new` for a single one"
        ))),
        members if members % 2 == 0 => Err(invalid(&format!(
            "a quorum of {members} survives no more losses than one of {}; leave one out, or add \
             one",
            members - 1
        ))),
        _ => Ok(()),
    }
}
