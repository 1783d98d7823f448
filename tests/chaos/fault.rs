//! What went wrong, and what that excuses.

/// One thing that was made to go wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: Kind,
    /// Which worker, server or key, to be read.
    pub target: String,
    /// When, by [`clock::now`](crate::clock::now): it may have begun as soon as that, and it was well again
    /// as late as that.
    pub from: u64,
    pub until: u64,
    /// The workers whose processes it befell.
    pub workers: Vec<u32>,
    /// Locks that servers may have forgotten by it: two may hold one then, the earlier one for as long
    /// as its lease runs.
    pub forgotten: Option<Keys>,
    /// Locks could not be had meanwhile, and for a moment after.
    pub away: bool,
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
    /// It comes back with all it acknowledged.
    ServerKilled,
    /// It comes back empty.
    ServerForgot,
    ServerStopped,
    ConnectionsCut,
    /// What goes both ways, …
    Delayed,
    /// … or one.
    RequestsDelayed,
    RepliesDelayed,
    RequestsHeld,
    RepliesHeld,
    BlackHole,
    /// The connections that there are carry nothing any more, and new ones do.
    Stranded,
    /// The connection breaks between a request and its reply.
    ReplyLost,
    MessagesLost,
    /// `DEBUG SLEEP`.
    ServerAsleep,
    /// `CLIENT PAUSE`.
    ClientsPaused,
    SlowScript,
    /// `-BUSY`, just when processes subscribe anew.
    BusyReplies,
    /// The user of the workers may not subscribe, and is not subscribed any more, …
    SubscribeRefused,
    /// … or may not use any channel, …
    ChannelsDenied,
    /// … or run scripts.
    ScriptsDenied,
    /// Messages on the processes' channels that no server sends.
    Nonsense,
    KeyDeleted,
    KeyOverwritten,
    Flushed,
    ScriptsFlushed,
    /// `CLIENT KILL TYPE`.
    ClientsKilled,
    Failover,
    SlotMoved,
    /// A server's is set, or a worker's machine has slept.
    ClockStepped,
}

/// What it befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sphere {
    Process,
    Server,
    Network,
    /// Something is asked of a server that a client of a lock never asks.
    Command,
    /// Others serve the locks.
    Topology,
    Clock,
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
    /// Of what is asked of a server that is alone, or a member of a quorum: it refuses what workers ask.
    pub const REFUSAL: [Self; 4] = [
        Self::BusyReplies,
        Self::SubscribeRefused,
        Self::ChannelsDenied,
        Self::ScriptsDenied,
    ];

    pub fn sphere(self) -> Sphere {
        match self {
            _ if Self::PROCESS.contains(&self) => Sphere::Process,
            _ if Self::NETWORK.contains(&self) => Sphere::Network,
            _ if Self::COMMAND.contains(&self) || Self::REFUSAL.contains(&self) => Sphere::Command,
            Self::Failover | Self::SlotMoved => Sphere::Topology,
            Self::ClockStepped => Sphere::Clock,
            _ => Sphere::Server,
        }
    }

    /// Whether a lock that is held is always taken away by it, behind its holder's back.
    pub fn takes_away(self) -> bool {
        matches!(
            self,
            Self::KeyDeleted | Self::KeyOverwritten | Self::Flushed
        )
    }

    /// Whether who serves the locks answers nothing for as long as it lasts.
    pub fn silences(self) -> bool {
        match self.sphere() {
            Sphere::Server => true,
            Sphere::Network => !matches!(self, Self::ReplyLost | Self::MessagesLost),
            Sphere::Command => {
                let stalls = [Self::ServerAsleep, Self::ClientsPaused, Self::SlowScript];
                stalls.contains(&self) || Self::REFUSAL.contains(&self)
            }
            Sphere::Process | Sphere::Topology | Sphere::Clock => false,
        }
    }
}
