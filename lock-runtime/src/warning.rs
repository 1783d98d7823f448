//! The findings of the server check.

use std::fmt;
use std::sync::Arc;

/// A property of a lock server that can lose locks or produce two holders.
///
/// [`LockManager::check_servers`](crate::LockManager::check_servers) returns them. The `Display` output
/// contains the server, the finding, its consequence and a remedy, which the methods return one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    server: Arc<str>,
    kind: WarningKind,
    finding: String,
}

/// The consequence of the finding in a [`Warning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// Locks may be evicted when the server's memory is full.
    Eviction,
    /// Locks may be missing after a restart of the server.
    NotDurable,
    /// A failover may promote a server without a lock before the lock's lease has ended.
    EarlyFailover,
    /// An isolated master may continue to grant locks after another master has replaced it.
    SplitBrain,
    /// The server is a replica of another server.
    ConnectedToReplica,
    /// The URL names one node of a Cluster, or a Sentinel, as if it were a standalone server.
    WrongTopology,
    /// Leases may end early or late, since the clocks of two servers differ.
    ClockSkew,
    /// Members of a quorum can fail together.
    DependentMembers,
    /// A crash of the server may undo what it has confirmed.
    NotFlushed,
    /// A failover to a standby may forget the last locks.
    AsynchronousStandby,
    /// Requests become slower, since the rows of ended locks remain.
    DeadRows,
    /// Waiters are not notified when they get a lock.
    Pooler,
    /// No caller can wait for a lock.
    NoQueue,
    /// The user lacks a permission that locks need.
    Permission,
    /// The cluster stops with one or few of its members.
    NoQuorum,
    /// The server stores nothing more, since it is full.
    NoSpace,
    /// The server keeps all history, and is going to be full.
    NeverCompacted,
    /// The version of the server has a defect that ends locks early.
    OldVersion,
    /// One more or one fewer server would let the deployment survive a failure, or cost none.
    NoSpareServer,
    /// Other clients of the server can delete or overwrite locks.
    Unprotected,
    /// A setting or a server could not be checked.
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

    /// Returns the address of the server, without credentials.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns what kind of consequence the finding has.
    #[must_use]
    pub fn kind(&self) -> WarningKind {
        self.kind
    }

    /// Returns what the check found.
    #[must_use]
    pub fn finding(&self) -> &str {
        &self.finding
    }

    /// Returns what the finding can do to locks.
    #[must_use]
    pub fn consequence(&self) -> &'static str {
        self.kind.explain().0
    }

    /// Returns how to correct it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        self.kind.explain().1
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (consequence, remedy) = self.kind.explain();
        let Warning {
            server, finding, ..
        } = self;
        write!(f, "`{server}`: {finding}: {consequence}; {remedy}")
    }
}

impl WarningKind {
    /// Returns the consequence and the remedy.
    fn explain(self) -> (&'static str, &'static str) {
        match self {
            WarningKind::Eviction => (
                "a lock may be evicted while it is held",
                "set `maxmemory-policy noeviction`, or use a separate server for locks",
            ),
            WarningKind::NotDurable => (
                "a restart loses locks that are held",
                "set `appendonly yes` and `appendfsync always`, or delay each restart by the longest ttl",
            ),
            WarningKind::EarlyFailover => (
                "a promoted replica that has not received a lock may grant it again while it is held",
                "delay the failover beyond the ttl and its margin, lower the ttl, or make all replicas \
                 acknowledge locks with `replicas`",
            ),
            WarningKind::SplitBrain => (
                "an isolated master grants locks that its successor grants, too",
                "set `min-replicas-to-write 1`, and lower `min-replicas-max-lag` until it and the ttl \
                 together are shorter than a failover",
            ),
            WarningKind::ConnectedToReplica => (
                "replicas reject writes, or lose locks written to them on the next sync",
                "connect to the server that accepts writes: `redis-sentinel://` finds it for Redis, and the names of \
                 all servers, `postgres://h1,h2/db`, for PostgreSQL",
            ),
            WarningKind::WrongTopology => (
                "this URL reaches only part of the deployment",
                "use `redis-cluster://` for a Cluster and `redis-sentinel://` for Sentinels",
            ),
            WarningKind::ClockSkew => (
                "leases may end early or late, and fencing tokens may not increase, where one of them lacks \
                 data of the other",
                "synchronize the clocks of all servers",
            ),
            WarningKind::DependentMembers => (
                "one failure can affect both, so a majority proves nothing",
                "use members that are independent of one another",
            ),
            WarningKind::NotFlushed => (
                "a crash of the server may undo locks and writes that it has confirmed",
                "turn it on; in MySQL, set it to 1",
            ),
            WarningKind::AsynchronousStandby => (
                "a failover may forget the last locks, and grant them again while they are held",
                "let commits wait for a standby (`synchronous_standby_names`; in MySQL, semi-synchronous replication), \
                 or reject writes by fencing tokens",
            ),
            WarningKind::DeadRows => (
                "rows of ended locks are not removed, and requests become slower",
                "turn `autovacuum` on, and end transactions that are open for long",
            ),
            WarningKind::Pooler => (
                "messages do not pass it, so a process that waits has to ask, up to 0.5 s late",
                "name the server itself; in PostgreSQL, for messages alone: `?listen=host:5432`",
            ),
            WarningKind::NoQueue => (
                "a call that finds its lock held fails, however long it would wait",
                "correct the cause, or drop the schema while no locks are held: the next connection makes it again",
            ),
            WarningKind::Permission => (
                "requests that need it will fail",
                "grant the user the permissions listed in `PROTOCOL.md`",
            ),
            WarningKind::NoQuorum => (
                "locks are granted and released only while more than half of the members run",
                "run three or five members, all of which vote",
            ),
            WarningKind::NoSpace => (
                "no lock can be granted or renewed",
                "compact the history, defragment, disarm the alarm, and set `--auto-compaction-retention`",
            ),
            WarningKind::NeverCompacted => (
                "every renewal adds to it, and once the database is full, locks are neither granted nor renewed",
                "start all members with `--auto-compaction-mode=periodic --auto-compaction-retention=5m`",
            ),
            WarningKind::OldVersion => (
                "a holder may lose its lock, and another one get it, before the lease has ended",
                "install a newer version",
            ),
            WarningKind::NoSpareServer => (
                "no lock can be acquired or renewed while it is down",
                "use an odd number of servers, at least three",
            ),
            WarningKind::Unprotected => (
                "any client of the server can end a lock that is held",
                "give the server a user with a password, and use that user's credentials",
            ),
            WarningKind::NotChecked => (
                "it could not be checked",
                "check that the server can be reached, and that the user may read its settings",
            ),
        }
    }
}
