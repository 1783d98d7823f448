//! The nodes through which a cluster can be reached.

use crate::config::Config;
use crate::engine::credentials::Credentials;
use crate::engine::redis::address::{Address, invalid};
use crate::engine::redis::conn::endpoint::{Discovery, Endpoint};
use crate::engine::request::EngineFuture;
use crate::engine::url::{MultiHostUrl, NodeAddress, format_address};
use crate::error::LockError;
use crate::util::backoff::fraction;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

const DEFAULT_PORT: u16 = 6379;

/// The known nodes, at first those in the URL.
pub(crate) struct SeedNodes {
    /// How to connect to each node, without its host.
    server: Address,
    seeds: Vec<NodeAddress>,
    nodes: RwLock<Vec<NodeAddress>>,
    next: AtomicUsize,
    refresh: Notify,
}

impl SeedNodes {
    /// Parses a URL like `redis-cluster://user:password@h1:6379,h2,h3`.
    pub(crate) fn parse_url(url: &str, config: &Config) -> Result<SeedNodes, LockError> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let wrong = |what: &str| {
            let form = "write `redis-cluster://user:password@h1:6379,h2,h3`";
            invalid(&format!("the URL can't be read: {what}; {form}"), None)
        };
        let hosts = MultiHostUrl::parse(rest, DEFAULT_PORT).map_err(wrong)?;
        if hosts.path.iter().any(|word| word != "0") || hosts.path.len() > 1 {
            return Err(wrong("a cluster has only database 0"));
        }
        let credentials = Credentials::of(config, hosts.credentials);
        let tls = scheme.starts_with("rediss");
        // Each process starts with another node, and continues round-robin.
        let start = fraction(Duration::from_secs(1)).subsec_nanos();
        Ok(SeedNodes {
            server: Address::at(("", 0), tls, 0, credentials, config)?,
            nodes: RwLock::new(hosts.hosts.clone()),
            seeds: hosts.hosts,
            next: AtomicUsize::new(start as usize),
            refresh: Notify::new(),
        })
    }

    /// Returns the nodes of the last slot map, then the others of the URL.
    pub(crate) fn addresses(&self) -> Vec<NodeAddress> {
        let mut all = self
            .nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let others = self.seeds.iter().filter(|seed| !all.contains(seed));
        let others: Vec<_> = others.cloned().collect();
        all.extend(others);
        all
    }

    /// Replaces the nodes of the slot map.
    pub(crate) fn update(&self, nodes: Vec<NodeAddress>) {
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    pub(crate) fn address_of(&self, node: &NodeAddress) -> Address {
        self.server.with_host(node)
    }

    /// Returns one of the nodes, a different one each time.
    pub(crate) fn next_address(&self) -> Address {
        let all = self.addresses();
        let next = self.next.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
        self.address_of(&all[next])
    }

    /// Requests a new slot map: the cluster may have changed.
    pub(crate) fn request_refresh(&self) {
        self.refresh.notify_one();
    }

    pub(crate) async fn refresh_requested(&self) {
        self.refresh.notified().await;
    }
}

/// Connections go to any node.
impl Discovery for SeedNodes {
    fn endpoint(&self) -> EngineFuture<'_, Endpoint> {
        let endpoint = Endpoint::fixed(Arc::new(self.next_address()));
        Box::pin(std::future::ready(Ok(endpoint)))
    }

    fn credentials(&self) -> &Credentials {
        &self.server.credentials
    }

    fn connection_failed(&self) {
        self.request_refresh();
    }
}

impl fmt::Display for SeedNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.server.has_tls() {
            true => "rediss",
            false => "redis",
        };
        let seeds: Vec<String> = self.seeds.iter().map(format_address).collect();
        write!(f, "{scheme}-cluster://{}", seeds.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_url(rest: &str) -> Result<SeedNodes, LockError> {
        SeedNodes::parse_url(&format!("redis-cluster://{rest}"), &Config::new(""))
    }

    #[test]
    fn a_url_names_some_nodes() {
        let seeds = parse_url("user:secret@h1:1,h2,[::1]:3").unwrap();
        let expected = [("h1", 1), ("h2", DEFAULT_PORT), ("::1", 3)];
        assert_eq!(
            seeds.seeds,
            expected.map(|(host, port)| (host.to_owned(), port))
        );
        assert_eq!(seeds.to_string(), "redis-cluster://h1:1,h2:6379,[::1]:3");
        assert!(parse_url("h1/0").is_ok());
    }

    #[test]
    fn an_invalid_url_is_rejected_with_the_reason() {
        for (rest, word) in [
            ("", "host"),
            ("h1/1", "database"),
            ("h1:x", "port"),
            ("h1/a/b", "database"),
        ] {
            let Err(error) = parse_url(rest) else {
                panic!("`{rest}` is no cluster");
            };
            let error = error.to_string();
            assert!(error.contains(word), "`{rest}`: {error}");
            assert!(
                error.contains("redis-cluster://user:password@h1:6379,h2,h3"),
                "{error}"
            );
        }
    }

    #[test]
    fn nodes_take_turns_and_seeds_stay_known() {
        let seeds = parse_url("h1,h2").unwrap();
        seeds.update(vec![("n1".to_owned(), 7)]);
        let mut met: Vec<_> = (0..3).map(|_| seeds.next_address().to_string()).collect();
        met.sort_unstable();
        assert_eq!(met, ["redis://h1:6379", "redis://h2:6379", "redis://n1:7"]);
    }

    #[test]
    fn a_node_of_both_url_and_slot_map_counts_once() {
        let seeds = parse_url("h1:1,h2:2").unwrap();
        let node = |host: &str, port| (host.to_owned(), port);
        seeds.update(vec![node("h2", 2), node("h3", 3)]);
        let expected = [node("h2", 2), node("h3", 3), node("h1", 1)];
        assert_eq!(seeds.addresses(), expected);
    }
}
