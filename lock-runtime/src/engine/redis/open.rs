//! Opens a Redis deployment.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::engine::redis::RedisEngine;
use crate::engine::redis::address::Address;
use crate::engine::redis::check::Inspector;
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::subscription::Subscription;
use crate::engine::redis::topology::Topology;
use crate::engine::redis::topology::cluster::seeds::SeedNodes;
use crate::engine::redis::topology::router::Router;
use crate::engine::redis::topology::sentinel::Sentinels;
use crate::engine::redis::wire::encode::Encoding;
use crate::error::LockError;
use crate::util::time::deadline_in;
use std::sync::Arc;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(open_one(opening, url))
}

async fn open_one(opening: Opening<'_>, url: &str) -> Result<Opened, LockError> {
    let topology = topology(&opening, url)?;
    let server: Arc<str> = topology.to_string().into();
    let is_sentinel = matches!(topology, Topology::Sentinel(_));
    match RedisEngine::connect(topology, opening).await {
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

/// Returns the topology of the deployment at that URL.
pub(crate) fn topology(opening: &Opening<'_>, url: &str) -> Result<Topology, LockError> {
    let Opening { config, .. } = opening;
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("redis-sentinel" | "rediss-sentinel") => {
            let sentinels = Sentinels::start(opening, url)?;
            Ok(Topology::Sentinel(Arc::new(sentinels)))
        }
        Some("redis-cluster" | "rediss-cluster") => Ok(Topology::Cluster(Arc::new(
            SeedNodes::parse_url(url, config)?,
        ))),
        _ => Ok(Topology::Standalone(Arc::new(Address::parse(url, config)?))),
    }
}

impl RedisEngine {
    /// Connects, and fails if that takes longer than the connect timeout.
    pub(crate) async fn connect(
        topology: Topology,
        opening: Opening<'_>,
    ) -> Result<RedisEngine, EngineError> {
        let Opening {
            config,
            timeouts,
            io,
            process,
            handler,
            ..
        } = opening;
        let cluster = matches!(topology, Topology::Cluster(_));
        let encoding = Encoding::new(&config.prefix, cluster)
            .map_err(|reason| EngineError::new(EngineErrorKind::Rejected, reason))?;
        let (keys, scripts) = (encoding.keys.clone(), encoding.scripts.clone());
        let encoding = Arc::new(encoding);
        let connector = Connector {
            optional_commands: scripts.load(),
            handler: handler.clone(),
            ..Connector::new(io, topology.discovery(), timeouts.clone(), encoding.clone())
        };
        let subscription = Subscription::new(&connector, &keys, process, handler.clone());
        let router = match &topology {
            Topology::Cluster(seeds) => Router::cluster(seeds.clone(), connector, handler).await?,
            _ => Router::standalone(&connector).await?,
        };
        let engine = RedisEngine {
            router,
            scripts,
            keys,
            subscription,
            inspector: Inspector {
                io,
                topology,
                timeouts: timeouts.clone(),
                encoding,
            },
        };
        if config.check_permissions {
            let deadline = deadline_in(timeouts.silence());
            engine.check_permissions(deadline).await?;
        }
        Ok(engine)
    }
}
