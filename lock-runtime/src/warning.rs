//! What makes a lock server unsafe, and what to do about it.

use std::fmt;
use std::sync::Arc;

/// Something about a lock server for which a lock may be lost, or be had twice.
///
/// [`LockManager::check_servers`](crate::LockManager::check_servers) finds them. Shown, it says what was found, why that
/// matters, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    server: Arc<str>,
    kind: WarningKind,
    finding: String,
}

/// What may happen because of what a [`Warning`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// Locks may be evicted when the server's memory is full.
    Eviction,
    /// A server that is restarted has forgotten locks.
    NotDurable,
    /// Another server may take the master's place before locks have ended of which it doesn't know.
    EarlyFailover,
    /// A master that is cut off goes on granting locks after another one has taken its place.
    SplitBrain,
    /// The server's locks are not its own: it follows another one.
    ConnectedToReplica,
    /// The URL doesn't say what the server is.
    WrongTopology,
    /// Leases end early or late where another server goes by another clock.
    ClockSkew,
    /// Members of a quorum fail together.
    DependentMembers,
    /// The user may not do all that locks need.
    Permission,
    /// Nothing is known, since it can't be asked.
    NotChecked,
}

impl Warning {
    pub(crate) fn new(server: &Arc<str>, kind: WarningKind, finding: impl Into<String>) -> Warning {
        Warning {
            server: server.clone(),
            kind,
            finding: finding.into(),
        }
    }

    /// The address of the server, without credentials.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What may happen.
    #[must_use]
    pub fn kind(&self) -> WarningKind {
        self.kind
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, remedy) = self.kind.explain();
        write!(f, "`{}`: {}: {why}; {remedy}", self.server, self.finding)
    }
}

impl WarningKind {
    /// Why it matters, and what to do.
    fn explain(self) -> (&'static str, &'static str) {
        match self {
            WarningKind::Eviction => (
                "a lock may be evicted while it is held",
                "set `maxmemory-policy noeviction`, or keep locks on a server of their own",
            ),
            WarningKind::NotDurable => (
                "a restart forgets locks that are held",
                "set `appendonly yes` and `appendfsync always`, or have it stay away for the longest \
                 ttl before it is started again",
            ),
            WarningKind::EarlyFailover => (
                "a replica that doesn't know of a lock may grant it again while it is held",
                "make the failover later than the ttl and its margin, lower the ttl, or have all \
                 replicas acknowledge locks with `replicas`",
            ),
            WarningKind::SplitBrain => (
                "a master that is cut off grants locks that another one grants too",
                "set `min-replicas-to-write 1`, and `min-replicas-max-lag` so that with the ttl it is \
                 shorter than a failover takes",
            ),
            WarningKind::ConnectedToReplica => (
                "it grants no locks, or such as are lost when it is told the master's",
                "connect to the master, or by `redis-sentinel://` to whoever is",
            ),
            WarningKind::WrongTopology => (
                "it keeps not all locks, or none",
                "connect by `redis-cluster://` to a cluster, and by `redis-sentinel://` to Sentinels",
            ),
            WarningKind::ClockSkew => (
                "leases end early or late, and fencing tokens may not grow, where one of them knows what \
                 the other doesn't",
                "synchronise the clocks of all servers",
            ),
            WarningKind::DependentMembers => (
                "what happens to one happens to both, and a majority proves nothing",
                "give the quorum members that have nothing in common",
            ),
            WarningKind::Permission => (
                "requests fail as soon as they need it",
                "permit the user what the section on permissions of `PROTOCOL.md` names",
            ),
            WarningKind::NotChecked => (
                "it could not be checked",
                "see that the server can be reached, and permit the user `+info +time +config|get`",
            ),
        }
    }
}
