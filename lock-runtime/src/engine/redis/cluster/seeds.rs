//! Where the nodes of a cluster can be met.

use crate::engine::redis::cluster::slot_map::Address;
use crate::engine::redis::net::target::{Access, Target, invalid};
use crate::engine::redis::net::url::{Hosts, written};
use crate::error::LockError;
use crate::util::backoff::fraction;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;

const PORT: u16 = 6379;

/// The nodes that are known: at first those in the URL.
pub(crate) struct Contacts {
    /// How to speak to each of them.
    target: Target,
    seeds: Vec<Address>,
    nodes: RwLock<Vec<Address>>,
    next: AtomicUsize,
    doubted: Notify,
}

impl Contacts {
    /// Reads a URL like `redis-cluster://user:password@h1:6379,h2,h3`.
    pub(crate) fn read(url: &str, access: &Access<'_>) -> Result<Contacts, LockError> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let wrong = |what: &str| {
            let form = "write `redis-cluster://user:password@h1:6379,h2,h3`";
            invalid(&format!("the URL can't be read: {what}; {form}"), None)
        };
        let hosts = Hosts::parse(rest, PORT).map_err(wrong)?;
        if hosts.path.iter().any(|word| word != "0") || hosts.path.len() > 1 {
            return Err(wrong("a cluster has no other database than 0"));
        }
        let access = access.with(access.credentials.or(hosts.credentials.as_ref()));
        // Everybody begins somewhere else, and goes round from there.
        let start = fraction(Duration::from_secs(1)).subsec_nanos();
        Ok(Contacts {
            target: Target::at("", 0, scheme.starts_with("rediss"), 0, &access)?,
            nodes: RwLock::new(hosts.hosts.clone()),
            seeds: hosts.hosts,
            next: AtomicUsize::new(start as usize),
            doubted: Notify::new(),
        })
    }

    /// Those that were known last, and those known from the first.
    pub(crate) fn all(&self) -> Vec<Address> {
        let mut all = self
            .nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        all.extend_from_slice(&self.seeds);
        all
    }

    /// These are the nodes by now.
    pub(crate) fn learn(&self, nodes: Vec<Address>) {
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    pub(crate) fn target(&self, address: &Address) -> redis::RedisResult<Target> {
        self.target.moved_to(address)
    }

    /// One of them, another one each time.
    pub(crate) fn next(&self) -> redis::RedisResult<Arc<Target>> {
        let all = self.all();
        let next = self.next.fetch_add(1, Ordering::Relaxed) % all.len().max(1);
        self.target(&all[next]).map(Arc::new)
    }

    /// The cluster is not what it was: has it looked at soon.
    pub(crate) fn doubt(&self) {
        self.doubted.notify_one();
    }

    pub(crate) async fn doubted(&self) {
        self.doubted.notified().await;
    }
}

impl fmt::Display for Contacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.target.has_tls() {
            true => "rediss",
            false => "redis",
        };
        let seeds: Vec<String> = self.seeds.iter().map(written).collect();
        write!(f, "{scheme}-cluster://{}", seeds.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rest: &str) -> Result<Contacts, LockError> {
        Contacts::read(&format!("redis-cluster://{rest}"), &Access::default())
    }

    #[test]
    fn a_url_names_some_nodes() {
        let contacts = read("user:secret@h1:1,h2,[::1]:3").unwrap();
        let expected = [("h1", 1), ("h2", PORT), ("::1", 3)];
        assert_eq!(
            contacts.seeds,
            expected.map(|(host, port)| (host.to_owned(), port))
        );
        assert_eq!(contacts.to_string(), "redis-cluster://h1:1,h2:6379,[::1]:3");
        assert!(read("h1/0").is_ok());
    }

    #[test]
    fn a_bad_url_is_told_what_is_wrong() {
        for (rest, word) in [
            ("", "host"),
            ("h1/1", "database"),
            ("h1:x", "port"),
            ("h1/a/b", "database"),
        ] {
            let Err(error) = read(rest) else {
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
    fn each_in_turn_and_the_first_ones_stay_known() {
        let contacts = read("h1,h2").unwrap();
        contacts.learn(vec![("n1".to_owned(), 7)]);
        let mut met: Vec<_> = (0..3)
            .map(|_| contacts.next().unwrap().to_string())
            .collect();
        met.sort();
        assert_eq!(met, ["redis://h1:6379", "redis://h2:6379", "redis://n1:7"]);
    }
}
