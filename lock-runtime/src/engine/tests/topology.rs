//! The servers that cases share, and what sets them apart.

use crate::config::Config;
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::{Memory, Network, Servers};
use std::any::Any;
use std::sync::Arc;

/// Servers, which end when the last case has ended.
pub(crate) struct Topology {
    pub(crate) name: &'static str,
    pub(crate) servers: Arc<dyn Servers>,
    /// The same servers.
    pub(crate) engine: Arc<dyn Any + Send + Sync>,
    /// Returns the configuration of the space with that prefix.
    pub(crate) configure: fn(&[String], &str) -> Config,
    /// `true` if several servers reply: an ask may come several times, a waiter has to poll, and no member
    /// knows a token whose lock was taken.
    pub(crate) is_quorum: bool,
    /// `true` if foreign bytes may be read.
    pub(crate) has_servers: bool,
    /// `true` if a process that has waited hears what others ask, and need not listen.
    pub(crate) waiters_hear: bool,
    /// `true` if there are numbers that are too far ahead.
    pub(crate) refuses_far: bool,
    /// `true` if a waiter can be taken from the queue.
    pub(crate) takes_waiters: bool,
    /// `true` if claims are entries in a line, which only their process makes: their numbers count what the
    /// server writes, and a report ends with its process.
    pub(crate) has_lines: bool,
    /// The longest name in bytes of a lock that is recalled.
    pub(crate) longest_recalled: usize,
}

impl Topology {
    /// Returns a topology with all abilities.
    pub(crate) fn of<S: Servers + 'static>(name: &'static str, servers: S) -> Topology {
        let servers = Arc::new(servers);
        Topology {
            name,
            engine: servers.clone(),
            servers,
            configure: by_prefix,
            is_quorum: false,
            has_servers: true,
            waiters_hear: true,
            refuses_far: false,
            takes_waiters: true,
            has_lines: false,
            longest_recalled: usize::MAX,
        }
    }

    pub(crate) fn memory() -> Topology {
        Topology {
            configure: |_, prefix| Config::new(format!("memory://{prefix}")).prefix(prefix),
            has_servers: false,
            takes_waiters: false,
            ..Topology::of("memory", Memory::start())
        }
    }

    pub(crate) fn config(&self, prefix: &str) -> Config {
        (self.configure)(&self.servers.urls(), prefix)
    }

    /// Returns the configuration of a process whose network can fail; `None` if it finds other ways to the
    /// servers.
    pub(crate) fn over_a_network(&self, prefix: &str) -> Option<(Network, Config)> {
        let network = Network::to(&*self.servers, &self.servers.ports(), Proxy::to)?;
        let config = (self.configure)(&network.urls, prefix);
        Some((network, config))
    }
}

fn by_prefix(urls: &[String], prefix: &str) -> Config {
    let config = match urls {
        [url] => Config::new(url.as_str()),
        urls => Config::quorum(urls),
    };
    config.prefix(prefix)
}
