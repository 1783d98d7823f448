//! The journal of a worker: one line of JSON per event, written immediately, so that a process that is killed
//! loses none.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time by [`clock::now`] and by [`clock::boot`].
    pub at: u64,
    pub boot: u64,
    /// The number of the lock manager; most processes have one.
    pub worker: u32,
    /// The number of the call within its worker, from one; zero for events that belong to no call.
    pub call: u64,
    #[serde(flatten)]
    pub what: EventKind,
}

/// The longest time between a timestamp and the reading of a guard, in nanoseconds.
pub const PRECISION: u64 = 1_000_000;

/// The kinds of events. All durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A function is called, which waits at most `wait`.
    Called {
        key: u32,
        /// The other keys whose locks the call acquires, if it acquires several together.
        others: Vec<u32>,
        kind: CallKind,
        /// It leaves the lock to its process.
        lazy: bool,
        ttl: u64,
        wait: u64,
    },
    /// Its body begins. `left` is the guard's reading, less than [`PRECISION`] after the timestamp was taken.
    Acquired { left: u64 },
    /// It received its fencing token, which it requested at `requested`.
    Token { requested: u64, token: u64 },
    /// The body continues after an await, and `left` remains of its lease.
    Step { left: u64 },
    /// It says that it is asked for its lock, which it holds until it ends.
    Asked,
    /// The call, which waits, is polled no more, …
    SetAside,
    /// … and is polled again, or dropped.
    TakenUp,
    /// The body continues as a reader. It held the lock exclusively until `requested`.
    Downgraded { requested: u64, left: u64 },
    /// The call is over.
    Ended { outcome: Outcome },
    /// The runtime was dropped with all unfinished calls of the worker.
    RuntimeDropped,
    /// The process has not run for this long, for whatever reason.
    Stalled { for_: u64 },
    /// Code that holds no lock begins to block a thread of the worker's runtime.
    Blocks,
    /// It has blocked the thread for this long.
    Blocked { for_: u64 },
    /// A panic that the worker did not cause on purpose.
    Panicked { text: String },
    /// The manager has this [identity](lock_runtime::ProcessId) from now on.
    Connected { process: String },
    /// The manager revokes a lock: from the holder with the token, which the process made, or from all.
    Revokes {
        key: u32,
        token: Option<String>,
        process: Option<String>,
        /// The holder has the lock alone.
        exclusive: bool,
        force: bool,
        grace: u64,
        /// When the holder was seen.
        seen: u64,
    },
    /// What became of the lock that it revoked at `since`, with the fencing token that a force has drawn.
    Revoked {
        since: u64,
        answer: Answer,
        number: Option<u64>,
    },
    /// How many calls resumed a kept lock, and how many locks of the manager were recalled, since it was
    /// connected.
    Counted { resumed: u64, recalled: u64 },
    /// A shutdown begins, with calls under way, whose bodies may finish within `grace`.
    ShutsDown { grace: u64 },
    /// It returned after `took`.
    ShutDown { took: u64 },
    /// The last event of a worker, with the threads and tasks of the library that are left in its process.
    Exited { threads: usize, tasks: usize },
}

/// What became of a lock that somebody wanted back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    NotHeld,
    Stopped,
    Unconfirmed,
    NotStopped,
    Taken,
    /// With an error. Anything may have happened.
    Failed(String),
}

/// The kind of function that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    Waits,
    TriesOnce,
    ReleasesInBackground,
    /// A guard held by hand.
    Guard,
    /// Its body continues after a loss, and checks its guard before each step.
    Continues,
    /// Its lease is never renewed.
    Unrenewed,
    MaxHold,
    /// Its lock is kept for a moment, however soon its body ends.
    Keeps,
    /// The same, and the call does not wait.
    Polls,
    /// The same as `Keeps`, with a guard held by hand.
    KeepsByHand,
    /// Its body makes another call for the same lock, which runs under it.
    Nests,
    /// It is refused if another call of its process waits.
    WaitsAlone,
    /// Its body panics.
    Panics,
    /// Its body leaves with `?`.
    Fails,
    /// The call is dropped at some point.
    Dropped,
    /// Its body blocks its thread for longer than the ttl.
    Blocks,
    /// A guard held by hand is dropped, and then its task blocks the thread.
    ThenBlocks,
    /// It runs on a thread and a runtime of its own, which is not driven any more once the guard is dropped.
    OwnRuntime,
    /// The guard is left in a thread-local of a thread that ends.
    ThreadLocal,
    /// `Lock::run`.
    Runs,
    /// A guard held by hand; the caller runs the body and waits for the loss at the same time.
    Watches,
    /// Shares the lock with other readers.
    Reads,
    /// A reader's guard held by hand.
    ReadsByHand,
    /// Shares the lock with one more holder.
    TwoPermits,
    /// Shares the lock with up to two more holders.
    ThreePermits,
    /// Holds the lock exclusively, and then shares it with readers.
    Downgrades,
    /// The part of such a call in which it shares the lock. No call is made with it.
    Downgraded,
    /// Acquires the locks of two or three keys together.
    Transfers,
    /// It is not polled for a while after it has begun to wait, and then polled again or dropped.
    SetAside,
    /// The same, for two or three keys.
    TransferSetAside,
}

impl CallKind {
    pub const ALL: [Self; 24] = [
        Self::Waits,
        Self::TriesOnce,
        Self::ReleasesInBackground,
        Self::Guard,
        Self::Continues,
        Self::Unrenewed,
        Self::MaxHold,
        Self::Keeps,
        Self::Polls,
        Self::KeepsByHand,
        Self::Nests,
        Self::WaitsAlone,
        Self::Panics,
        Self::Fails,
        Self::Dropped,
        Self::Blocks,
        Self::Runs,
        Self::Watches,
        Self::ThenBlocks,
        Self::OwnRuntime,
        Self::ThreadLocal,
        Self::Transfers,
        Self::SetAside,
        Self::TransferSetAside,
    ];

    /// The kinds that need only a runtime that continues.
    pub const USUAL: &[Self] = Self::ALL.split_at(18).0;

    /// The kinds of readers.
    pub const READERS: [Self; 3] = [Self::Reads, Self::Reads, Self::ReadsByHand];

    /// The kinds that share a lock, and that a quorum refuses.
    pub const COUNTED: [Self; 3] = [Self::TwoPermits, Self::ThreePermits, Self::Downgrades];

    /// Returns the greatest number of holders while one of them is of this kind.
    pub fn limit(self) -> usize {
        match self {
            Self::Reads | Self::ReadsByHand | Self::Downgraded => usize::MAX,
            Self::TwoPermits => 2,
            Self::ThreePermits => 3,
            _ => 1,
        }
    }

    pub fn reads(self) -> bool {
        self.limit() == usize::MAX
    }

    /// Returns `true` for kinds that take long or start a thread.
    pub fn is_rare(self) -> bool {
        matches!(
            self,
            Self::Blocks
                | Self::MaxHold
                | Self::ThenBlocks
                | Self::OwnRuntime
                | Self::ThreadLocal
                | Self::SetAside
                | Self::TransferSetAside
        )
    }

    /// Returns `true` if the guard is held by hand, so that nothing cancels the body.
    pub fn is_by_hand(self) -> bool {
        matches!(
            self,
            Self::Guard
                | Self::KeepsByHand
                | Self::ThenBlocks
                | Self::OwnRuntime
                | Self::ThreadLocal
                | Self::ReadsByHand
                | Self::Downgrades
                | Self::Downgraded
        )
    }

    /// Returns `true` if the body releases the guard itself, and reports the result.
    pub fn is_released_by_hand(self) -> bool {
        let watches = [Self::Watches, Self::SetAside, Self::TransferSetAside];
        self.is_by_hand() || watches.contains(&self)
    }

    /// Returns `true` if a call of this kind may leave its lock to its process.
    pub fn may_be_lazy(self) -> bool {
        matches!(
            self,
            Self::Waits
                | Self::TriesOnce
                | Self::Guard
                | Self::Dropped
                | Self::Blocks
                | Self::ThenBlocks
                | Self::OwnRuntime
                | Self::ThreadLocal
                | Self::Runs
                | Self::Watches
                | Self::Downgrades
                | Self::SetAside
        )
    }

    /// Returns `true` if a call of this kind acquires the locks of several keys.
    pub fn is_of_several(self) -> bool {
        matches!(self, Self::Transfers | Self::TransferSetAside)
    }

    /// Returns `true` if a call of this kind may be dropped before it ends.
    pub fn may_be_dropped(self) -> bool {
        matches!(
            self,
            Self::Dropped | Self::SetAside | Self::TransferSetAside
        )
    }

    /// Returns `true` if a call of this kind waits in the queue of one lock until it acquires that lock.
    pub fn queues(self) -> bool {
        !self.is_of_several() && !matches!(self, Self::TriesOnce | Self::Polls | Self::Downgraded)
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    /// By the `?` in its body.
    Failed,
    Panicked,
    Dropped,
    Busy,
    Unavailable,
    Lost,
    /// Lost since somebody asked for the lock.
    Revoked,
    /// Its manager was shut down while it waited, or held the lock.
    ShutDown,
    /// The resource had seen a later holder.
    Refused,
    /// With an error that must not occur.
    Wrong(String),
}

/// The file that a worker writes its events to.
pub struct Journal {
    file: File,
    worker: u32,
}

impl Journal {
    pub fn open(path: &Path, worker: u32) -> Self {
        let file = File::options().create(true).append(true).open(path);
        Self {
            file: file.unwrap(),
            worker,
        }
    }

    pub fn write(&self, call: u64, what: EventKind) {
        self.write_at(clock::reading(), call, what);
    }

    /// Runs code that blocks the thread. If the process is killed meanwhile, the first event is left.
    pub fn blocked(&self, work: impl FnOnce()) {
        let start = clock::reading();
        self.write_at(start, 0, EventKind::Blocks);
        work();
        let end = clock::reading();
        let for_ = end.0 - start.0;
        self.write_at(end, 0, EventKind::Blocked { for_ });
    }

    /// Writes an event with an earlier reading of the clocks.
    pub fn write_at(&self, (at, boot): (u64, u64), call: u64, what: EventKind) {
        let event = Event {
            at,
            boot,
            worker: self.worker,
            call,
            what,
        };
        let mut line = serde_json::to_vec(&event).unwrap();
        line.push(b'\n');
        (&self.file).write_all(&line).unwrap();
    }
}

/// Returns all events of a journal, in order, without one that a killed process has not written to its end.
pub fn read(path: &Path) -> Vec<Event> {
    parse(&fs::read_to_string(path).unwrap())
}

fn parse(journal: &str) -> Vec<Event> {
    let lines = journal
        .split_inclusive('\n')
        .filter(|it| it.ends_with('\n'));
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_a_process_that_was_killed_meanwhile_is_left_out() {
        let event = Event {
            at: 1,
            boot: 2,
            worker: 3,
            call: 4,
            what: EventKind::Blocks,
        };
        let whole = serde_json::to_string(&event).unwrap() + "\n";
        for end in 0..whole.len() {
            let read = parse(&format!("{whole}{}", &whole[..end]));
            assert_eq!(read, std::slice::from_ref(&event));
        }
    }
}
