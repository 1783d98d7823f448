//! Checks servers for settings that endanger locks.

pub(crate) mod info;
pub(crate) mod permissions;
pub(crate) mod rules;

use crate::engine::error::EngineError;
use crate::engine::inspection::Inspection;
use crate::engine::redis::address::Address;
use crate::engine::redis::check::info::ServerInfo;
use crate::engine::redis::check::rules::{Failover, NEEDED, ServerChecks};
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::topology::Topology;
use crate::engine::redis::wire::encode::Encoding;
use crate::engine::timeouts::Timeouts;
use crate::util::io_thread::IoThread;
use crate::util::join_all::join_all;
use std::sync::Arc;
use std::time::Duration;

/// How often a Sentinel pings the master. It counts the silence from the master's last reply.
const SENTINEL_PERIOD: Duration = Duration::from_secs(1);

pub(crate) struct Inspector {
    pub(crate) io: IoThread,
    pub(crate) topology: Topology,
    pub(crate) timeouts: Timeouts,
    pub(crate) encoding: Arc<Encoding>,
}

impl Inspector {
    pub(crate) async fn inspect(&self, ttl: Duration, replicas: u32) -> Inspection {
        let mut found = Inspection::default();
        match &self.topology {
            Topology::Standalone(address) => {
                let servers = self.fetch_info([address.clone()], &mut found).await;
                for server in &servers {
                    let mut checks = ServerChecks::new(server, ttl);
                    if checks.check_topology() {
                        checks.check_durability();
                    }
                    found.warnings.append(&mut checks.warnings);
                }
            }
            Topology::Sentinel(sentinels) => match sentinels.master().await {
                Ok(endpoint) => {
                    let master = &endpoint.address;
                    let mut servers = self.fetch_info([master.clone()], &mut found).await;
                    let followers = servers.iter().flat_map(ServerInfo::replicas);
                    let followers = followers.map(|it| Arc::new(master.with_host(&it)));
                    let followers: Vec<_> = followers.collect();
                    servers.extend(self.fetch_info(followers, &mut found).await);
                    let down_after = sentinels.down_after().unwrap_or_default();
                    let failover = Failover {
                        after: down_after.saturating_sub(SENTINEL_PERIOD),
                        setting: format!("`down-after-milliseconds` is {}", down_after.as_millis()),
                    };
                    check_failover_group(&servers, (ttl, replicas), Some(&failover), &mut found);
                }
                Err(error) => found.add_unreachable(&self.topology.to_string().into(), &error),
            },
            Topology::Cluster(seeds) => {
                let nodes = seeds.addresses();
                let addresses = nodes.iter().map(|node| Arc::new(seeds.address_of(node)));
                let addresses: Vec<_> = addresses.collect();
                let mut servers = self.fetch_info(addresses, &mut found).await;
                // A server may be known by several names.
                servers.sort_by(|a, b| a.info("run_id").cmp(b.info("run_id")));
                servers.dedup_by(|a, b| a.info("run_id") == b.info("run_id"));
                check_failover_group(&servers, (ttl, replicas), None, &mut found);
            }
        }
        found
    }

    /// Fetches the servers' own reports. A server that cannot be queried becomes a finding.
    async fn fetch_info(
        &self,
        addresses: impl IntoIterator<Item = Arc<Address>>,
        found: &mut Inspection,
    ) -> Vec<ServerInfo> {
        let ask = async |address: Arc<Address>| {
            let (timeouts, encoding) = (self.timeouts.clone(), self.encoding.clone());
            let connector = Connector::new(self.io, address.clone(), timeouts, encoding);
            let info = ServerInfo::fetch(connector).await;
            info.map_err(|error| (address, error))
        };
        let mut servers = Vec::new();
        for server in join_all(addresses.into_iter().map(ask)).await {
            match server {
                Ok(server) => {
                    found.add_server(server.identity());
                    servers.push(server);
                }
                Err((address, error)) => {
                    let error = EngineError::new(error.kind, format!("{error}; {NEEDED}"));
                    found.add_unreachable(&address.to_string().into(), &error);
                }
            }
        }
        servers
    }
}

/// Checks servers that replace one another on a failover. `failover` says when one happens; without it, the
/// servers' own settings do.
fn check_failover_group(
    servers: &[ServerInfo],
    (ttl, replicas): (Duration, u32),
    failover: Option<&Failover>,
    found: &mut Inspection,
) {
    for server in servers {
        let mut checks = ServerChecks::new(server, ttl);
        checks.check_durability();
        // After a failover, no replica grants a lock that all replicas have acknowledged.
        let is_known = u64::from(replicas) >= server.info_u64("connected_slaves");
        if server.info("role") == "master" && !is_known {
            match failover {
                Some(failover) => checks.check_failover(failover),
                None => checks.check_cluster_failover(),
            }
        }
        for other in servers.iter().filter(|other| other.is_replica_of(server)) {
            checks.check_clock_skew(other);
        }
        found.warnings.append(&mut checks.warnings);
    }
}
