//! Opens a Redis deployment, or a quorum of them.

use crate::config::{Config, invalid};
use crate::engine::member::Member;
use crate::engine::opening::{OpenFuture, Opened, Opening, connect_error};
use crate::engine::quorum::QuorumEngine;
use crate::engine::quorum::release_hints::ReleaseHints;
use crate::engine::redis::RedisEngine;
use crate::engine::redis::cluster::seeds::SeedNodes;
use crate::engine::redis::member::RedisMember;
use crate::engine::redis::net::target::{AuthOptions, Target};
use crate::engine::redis::sentinel::Sentinels;
use crate::engine::redis::topology::Topology;
use crate::engine::timeouts::Timeouts;
use crate::error::LockError;
use crate::util::io_thread::IoThread;
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) fn open<'a>(opening: Opening<'a>, url: &'a str) -> OpenFuture<'a> {
    Box::pin(open_one(opening, url))
}

pub(crate) fn open_quorum<'a>(opening: Opening<'a>, urls: &'a [String]) -> OpenFuture<'a> {
    Box::pin(open_members(opening, urls))
}

async fn open_one(opening: Opening<'_>, url: &str) -> Result<Opened, LockError> {
    let Opening {
        config,
        timeouts,
        io,
        handler,
        ..
    } = opening;
    let topology = topology(config, &timeouts, io, url)?;
    let server: Arc<str> = topology.to_string().into();
    let is_sentinel = matches!(topology, Topology::Sentinel(_));
    match RedisEngine::connect(io, topology, timeouts, &config.prefix, handler).await {
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

async fn open_members(opening: Opening<'_>, urls: &[String]) -> Result<Opened, LockError> {
    let Opening {
        config,
        timeouts,
        io,
        handler,
        ..
    } = opening;
    validate_quorum_size(urls)?;
    let topologies = urls.iter().map(|url| topology(config, &timeouts, io, url));
    let topologies = topologies.collect::<Result<Vec<Topology>, LockError>>()?;
    let names: Vec<String> = topologies.iter().map(Topology::to_string).collect();
    let mut seen = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
        return Err(invalid(&format!(
            "`{twice}` is in the quorum twice; its members must be independent servers"
        )));
    }
    let server: Arc<str> = names.join(", ").into();
    let hints = ReleaseHints::new(topologies.len(), handler);
    let member = |(number, topology)| {
        let handler = hints.handler(number);
        let member = RedisMember::open(io, topology, timeouts.clone(), &config.prefix, handler);
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

/// Returns the topology of the deployment at that URL.
fn topology(
    config: &Config,
    timeouts: &Timeouts,
    io: IoThread,
    url: &str,
) -> Result<Topology, LockError> {
    let auth = AuthOptions {
        credentials: config.credentials.as_ref(),
        #[cfg(feature = "tls")]
        root_certificate: config.root_certificate.as_deref(),
    };
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("redis-sentinel" | "rediss-sentinel") => {
            let credentials = config.sentinel_credentials.as_ref();
            let sentinels = Sentinels::start(io, url, &auth, credentials, timeouts)?;
            Ok(Topology::Sentinel(Arc::new(sentinels)))
        }
        Some("redis-cluster" | "rediss-cluster") => Ok(Topology::Cluster(Arc::new(
            SeedNodes::parse_url(url, &auth)?,
        ))),
        _ => Ok(Topology::Standalone(Arc::new(Target::parse(url, &auth)?))),
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
