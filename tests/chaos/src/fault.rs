//! The injected faults, and the violations that they excuse.

/// One injected fault.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: Kind,
    /// The worker, server or key, for messages.
    pub target: String,
    /// The span by [`clock::now`](crate::clock::now): the fault began no earlier than `from`, and was over no
    /// later than `until`.
    pub from: u64,
    pub until: u64,
    /// The workers whose processes it affected.
    pub workers: Vec<u32>,
    /// Locks that servers may have lost by it: two calls may then hold one, the earlier one until its lease
    /// ends.
    pub forgotten: Option<Keys>,
    /// Locks could not be acquired meanwhile, and for a moment after.
    pub away: bool,
    /// It had no effect that was seen, and does not count as a fault; it may have had one nevertheless.
    pub vain: bool,
}

impl Fault {
    /// Returns `true` if the worker is one of those from whom it may have taken locks.
    pub fn takes_from(&self, worker: u32) -> bool {
        self.forgotten.is_some() && (self.workers.is_empty() || self.workers.contains(&worker))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    All,
    One(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    WorkerKilled,
    WorkerStopped,
    RuntimeDropped,
    /// The process ends in an ordinary way, while its calls are under way.
    WorkerEnded,
    /// The server returns with all data that it acknowledged.
    ServerKilled,
    /// The server returns empty.
    ServerForgot,
    ServerStopped,
    /// Clients reach the server, and the other servers do not.
    ServerParted,
    ConnectionsCut,
    /// Traffic in both directions, …
    Delayed,
    /// … or in one.
    RequestsDelayed,
    RepliesDelayed,
    RequestsHeld,
    RepliesHeld,
    BlackHole,
    /// Existing connections carry nothing any more; new ones do.
    Stranded,
    /// The connection breaks between a request and its reply.
    ReplyLost,
    MessagesLost,
    /// `DEBUG SLEEP`.
    ServerAsleep,
    /// `CLIENT PAUSE`.
    ClientsPaused,
    SlowScript,
    /// `-BUSY`, while processes resubscribe.
    BusyReplies,
    /// The ACL user of the workers may not subscribe, and its subscriptions are ended, …
    SubscribeRefused,
    /// … or may not use any channel, …
    ChannelsDenied,
    /// … or run scripts, …
    ScriptsDenied,
    /// … or call one of the commands within them.
    CommandDenied,
    /// Messages on the processes' channels that no server would send.
    Nonsense,
    KeyDeleted,
    /// Another client deletes the claim of the first waiter, behind an exclusive holder.
    PlaceDeleted,
    KeyOverwritten,
    Flushed,
    ScriptsFlushed,
    /// `CLIENT KILL TYPE`.
    ClientsKilled,
    Failover,
    SlotMoved,
    /// The clock of a server is set, or a worker's machine has slept.
    ClockStepped,
    /// The pooler in front of a database ends, and starts again.
    PoolerRestarted,
    /// The database ends the sessions of all clients.
    BackendsEnded,
    /// The database ends them, and accepts no writes for a while.
    ReadOnly,
    /// A transaction with an old snapshot keeps all dead rows.
    VacuumHeldUp,
    /// etcd forgets what its keys were before, which watches may still need.
    HistoryCompacted,
    /// From then on, leases of etcd are revoked when their length has passed since they were granted, kept
    /// alive or not: a leader that was frozen has that done when it resumes.
    LeasesRevoked,
    /// Somebody asks the holders of a lock to give it up, …
    Ask,
    /// … or takes it from them.
    Force,
}

/// The part of the system that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    Process,
    Server,
    Network,
    /// A server receives a command that the library never sends.
    Command,
    /// Another server takes over the locks.
    Topology,
    Clock,
    /// A database, or what is in front of it.
    Database,
    /// A lock is revoked from whoever holds it.
    Holder,
}

impl Kind {
    pub const PROCESS: [Self; 3] = [
        Self::WorkerKilled,
        Self::WorkerStopped,
        Self::RuntimeDropped,
    ];
    pub const SERVER: [Self; 3] = [Self::ServerKilled, Self::ServerForgot, Self::ServerStopped];
    pub const NETWORK: [Self; 10] = [
        Self::ConnectionsCut,
        Self::Delayed,
        Self::RequestsDelayed,
        Self::RepliesDelayed,
        Self::RequestsHeld,
        Self::RepliesHeld,
        Self::BlackHole,
        Self::Stranded,
        Self::ReplyLost,
        Self::MessagesLost,
    ];
    pub const COMMAND: [Self; 9] = [
        Self::ServerAsleep,
        Self::ClientsPaused,
        Self::SlowScript,
        Self::KeyDeleted,
        Self::KeyOverwritten,
        Self::Flushed,
        Self::ScriptsFlushed,
        Self::ClientsKilled,
        Self::Nonsense,
    ];
    /// Commands to a standalone server or a member of a quorum that make it refuse the workers' requests.
    pub const REFUSAL: [Self; 5] = [
        Self::BusyReplies,
        Self::SubscribeRefused,
        Self::ChannelsDenied,
        Self::ScriptsDenied,
        Self::CommandDenied,
    ];

    pub const DATABASE: [Self; 6] = [
        Self::PoolerRestarted,
        Self::BackendsEnded,
        Self::ReadOnly,
        Self::VacuumHeldUp,
        Self::HistoryCompacted,
        Self::LeasesRevoked,
    ];

    pub const HOLDER: [Self; 2] = [Self::Ask, Self::Force];

    /// Returns those of a network on which no server sends messages.
    pub fn without_messages() -> Vec<Self> {
        let network = Self::NETWORK.into_iter();
        network.filter(|kind| *kind != Self::MessagesLost).collect()
    }

    pub fn target(self) -> FaultTarget {
        match self {
            _ if Self::PROCESS.contains(&self) => FaultTarget::Process,
            Self::WorkerEnded => FaultTarget::Process,
            _ if Self::NETWORK.contains(&self) => FaultTarget::Network,
            _ if Self::COMMAND.contains(&self) || Self::REFUSAL.contains(&self) => {
                FaultTarget::Command
            }
            _ if Self::DATABASE.contains(&self) => FaultTarget::Database,
            _ if Self::HOLDER.contains(&self) => FaultTarget::Holder,
            Self::PlaceDeleted => FaultTarget::Command,
            Self::Failover | Self::SlotMoved => FaultTarget::Topology,
            Self::ClockStepped => FaultTarget::Clock,
            _ => FaultTarget::Server,
        }
    }

    /// Returns `true` if the fault always removes a held lock without its holder's knowledge.
    pub fn takes_away(self) -> bool {
        matches!(
            self,
            Self::KeyDeleted | Self::KeyOverwritten | Self::Flushed
        )
    }

    /// Returns `true` if the server of the locks replies to nothing while the fault lasts.
    pub fn silences(self) -> bool {
        match self.target() {
            FaultTarget::Server => true,
            FaultTarget::Network => !matches!(self, Self::ReplyLost | Self::MessagesLost),
            FaultTarget::Command => {
                let stalls = [Self::ServerAsleep, Self::ClientsPaused, Self::SlowScript];
                stalls.contains(&self) || Self::REFUSAL.contains(&self)
            }
            FaultTarget::Database => !matches!(
                self,
                Self::VacuumHeldUp | Self::HistoryCompacted | Self::LeasesRevoked
            ),
            FaultTarget::Process
            | FaultTarget::Topology
            | FaultTarget::Clock
            | FaultTarget::Holder => false,
        }
    }
}
