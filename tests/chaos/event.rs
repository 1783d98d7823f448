//! What a worker writes down while it happens: a line of JSON each, written at once, so that a process
//! that is killed leaves all of them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, by [`clock::now`] and [`clock::boot`].
    pub at: u64,
    pub boot: u64,
    /// A lock manager: most processes have one.
    pub worker: u32,
    /// Counts the calls of a worker, from one; zero for what belongs to none.
    pub call: u64,
    #[serde(flatten)]
    pub what: What,
}

/// All durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A function is called, which waits for so long at most.
    Asked {
        key: u32,
        way: Way,
        ttl: u64,
        wait: u64,
    },
    /// Its body begins. `left` is what the guard said just after the stamp was taken.
    Acquired { left: u64 },
    /// It has its fencing token, which it began to ask for at that time.
    Token { asked: u64, token: u64 },
    /// The body goes on after an await, and this long is left of its lease.
    Step { left: u64 },
    /// The call is over.
    Ended { how: How },
    /// The runtime with all unfinished calls of the worker is gone.
    RuntimeDropped,
    /// The process has not run for so long, whoever is to blame.
    Stalled { for_: u64 },
    /// A thread of the worker's runtime has been blocked for that long, by nothing that holds a lock.
    Blocked { for_: u64 },
    /// A panic that the worker did not cause on purpose.
    Panicked { text: String },
    /// How long `shutdown` took.
    ShutDown { took: u64 },
    /// The last of a worker: what is left in its process that belongs to locks.
    Over { threads: usize, tasks: usize },
}

/// What kind of function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    Waits,
    TriesOnce,
    ReleasesInBackground,
    /// A guard held by hand.
    Guard,
    /// Its body goes on after a loss, and asks its guard before each step.
    Continues,
    /// Its lease is never renewed.
    Unrenewed,
    MaxHold,
    /// Its body panics.
    Panics,
    /// Its body leaves with `?`.
    Fails,
    /// It is dropped at some point.
    Dropped,
    /// Its body blocks its thread for longer than the ttl.
    Blocks,
    /// A guard held by hand is dropped, and then its task blocks the thread.
    ThenBlocks,
    /// On a thread and a runtime of its own, which is not driven any more once the guard is dropped.
    OwnRuntime,
    /// The guard is left in a thread-local of a thread that ends.
    ThreadLocal,
    /// `Lock::run`.
    Runs,
    /// A guard held by hand, beside which the body waits for its loss.
    Watches,
}

impl Way {
    pub const ALL: [Self; 16] = [
        Self::Waits,
        Self::TriesOnce,
        Self::ReleasesInBackground,
        Self::Guard,
        Self::Continues,
        Self::Unrenewed,
        Self::MaxHold,
        Self::Panics,
        Self::Fails,
        Self::Dropped,
        Self::Blocks,
        Self::Runs,
        Self::Watches,
        Self::ThenBlocks,
        Self::OwnRuntime,
        Self::ThreadLocal,
    ];

    /// Those that need nothing but a runtime that goes on.
    pub const USUAL: &[Self] = Self::ALL.split_at(13).0;

    /// Those that take long, or for which a thread is started.
    pub fn is_rare(self) -> bool {
        matches!(
            self,
            Self::Blocks | Self::MaxHold | Self::ThenBlocks | Self::OwnRuntime | Self::ThreadLocal
        )
    }

    /// Whether the guard is held by hand, so that nothing cancels the body.
    pub fn is_by_hand(self) -> bool {
        matches!(
            self,
            Self::Guard | Self::ThenBlocks | Self::OwnRuntime | Self::ThreadLocal
        )
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Done,
    /// By the `?` in its body.
    Failed,
    Panicked,
    Dropped,
    Busy,
    Unavailable,
    Lost,
    /// The resource knew of a later holder.
    Refused,
    /// With an error that must not be.
    Wrong(String),
}

/// Where a worker writes them.
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

    pub fn write(&self, call: u64, what: What) {
        self.write_at(clock::now(), call, what);
    }

    /// Something that was so at that time.
    pub fn write_at(&self, at: u64, call: u64, what: What) {
        let event = Event {
            at,
            boot: clock::boot(),
            worker: self.worker,
            call,
            what,
        };
        let mut line = serde_json::to_vec(&event).unwrap();
        line.push(b'\n');
        (&self.file).write_all(&line).unwrap();
    }
}

/// All that was written there, in order.
pub fn read(path: &Path) -> Vec<Event> {
    let lines = BufReader::new(File::open(path).unwrap()).lines();
    let parse =
        |line: String| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
    lines.map(|line| parse(line.unwrap())).collect()
}
