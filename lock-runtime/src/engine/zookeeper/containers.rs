//! The nodes above those of claims and sessions.

use crate::engine::zookeeper::net::failure::Failure;
use crate::engine::zookeeper::net::request::{NodeKind, Request};
use crate::engine::zookeeper::net::session::Session;
use crate::engine::zookeeper::paths::lineage;
use tokio::time::Instant;

/// Creates a container and those above it.
pub(crate) async fn create_containers(
    session: &Session,
    path: &str,
    deadline: Instant,
) -> Result<(), Failure> {
    let lineage: Vec<&str> = lineage(path).collect();
    // From the bottom: mostly only the last one is missing.
    let mut at = lineage.len().saturating_sub(1);
    while let Some(path) = lineage.get(at) {
        let create = Request::Create {
            path: (*path).to_owned(),
            kind: NodeKind::Container,
        };
        match session.request(create, deadline).await {
            Ok(_) | Err(Failure::Exists) => at += 1,
            Err(Failure::NoNode) if at > 0 => at -= 1,
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}
