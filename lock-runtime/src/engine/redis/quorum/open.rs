//! Opens a quorum of Redis deployments.

use crate::config::invalid;
use crate::engine::opening::{Opened, Opening, connect_error};
use crate::engine::redis::open::topology;
use crate::engine::redis::quorum::QuorumEngine;
use crate::engine::redis::quorum::member::Member;
use crate::engine::redis::quorum::redis_member::RedisMember;
use crate::engine::redis::quorum::release_hints::ReleaseHints;
use crate::engine::redis::topology::Topology;
use crate::error::LockError;
use std::collections::HashSet;
use std::sync::Arc;

/// Opens the quorum of the deployments at these URLs.
pub(crate) async fn open(opening: Opening<'_>, urls: &[String]) -> Result<Opened, LockError> {
    let Opening {
        timeouts,
        io,
        handler,
        ..
    } = opening.clone();
    validate_quorum_size(urls)?;
    let topologies = urls.iter().map(|url| topology(&opening, url));
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
        let opening = Opening {
            handler: hints.handler(number),
            ..opening.clone()
        };
        Arc::new(RedisMember::open(topology, opening)) as Arc<dyn Member>
    };
    let members = topologies.into_iter().enumerate().map(member).collect();
    match QuorumEngine::connect(io, members, hints, timeouts).await {
        Ok(quorum) => Ok((Arc::new(quorum), server)),
        Err(error) => Err(connect_error(server, error, |_, error| {
            format!("the quorum can't be used: {error}")
        })),
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
