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
    Delayed,
    RequestsHeld,
    RepliesHeld,
    BlackHole,
    /// The connection breaks between a request and its reply.
    ReplyLost,
    MessagesLost,
    /// `DEBUG SLEEP`.
    ServerAsleep,
    /// `CLIENT PAUSE`.
    ClientsPaused,
    SlowScript,
    KeyDeleted,
    KeyOverwritten,
    Flushed,
    ScriptsFlushed,
    /// `CLIENT KILL TYPE`.
    ClientsKilled,
    Failover,
    SlotMoved,
    ClockStepped,
}
