//! What a worker process is told to do, and how it goes about it.

use std::path::{Path, PathBuf};

use lock_runtime::Config;
use serde::{Deserialize, Serialize};

use crate::event::Way;
use crate::support::time::millis;

/// What a process is told to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Where the locks are kept; several, separated by spaces, are a quorum.
    pub urls: String,
    /// The number of its first worker, and how many it has: a lock manager each.
    pub first: u32,
    pub managers: u32,
    /// How many locks they compete for.
    pub keys: u32,
    pub ttl_ms: u64,
    pub seed: u64,
    /// The directory of its journals, one for each worker.
    pub journals: PathBuf,
    /// The socket of the resource.
    pub book: PathBuf,
    /// Whether bodies ask for their fencing tokens, and write with them.
    pub fenced: bool,
    pub replicas: u32,
    /// The ACL user that it is for the servers, and the password.
    pub user: Option<(String, String)>,
    pub habit: Habit,
}

/// How workers go about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Habit {
    /// How many calls each has under way.
    pub tasks: u32,
    /// The kinds of functions it calls.
    pub ways: Vec<Way>,
    /// How long everybody waits.
    pub wait_ms: Option<u64>,
    pub pace: Pace,
    /// Any of these is asked for instead of the usual ttl.
    pub ttls_ms: Vec<u64>,
    /// For how long a lock may pass from guard to guard within a process, instead of the usual.
    pub hand_over_ms: Option<u64>,
    /// Whether some runtimes can do no I/O.
    pub without_io: bool,
    /// Whether what is logged on the I/O thread makes the subscriber panic.
    pub panicking_log: bool,
}

/// How long bodies take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Most are short, some need their lease to be renewed.
    Mixed,
    Short,
    /// Longer than the ttl, in many small steps.
    Lingering,
    /// That long, in many small steps.
    Held {
        ms: u64,
    },
    /// Short with a short lease; with a longer one, until what was granted is renewed.
    ByTtl,
}

impl Default for Habit {
    fn default() -> Self {
        Self {
            tasks: 3,
            ways: Way::ALL.to_vec(),
            wait_ms: None,
            pace: Pace::Mixed,
            ttls_ms: Vec::new(),
            hand_over_ms: None,
            without_io: true,
            panicking_log: false,
        }
    }
}

impl Order {
    pub fn journal(directory: &Path, worker: u32) -> PathBuf {
        directory.join(format!("{worker}.jsonl"))
    }

    pub fn config(&self) -> Config {
        let mut config = config(&self.urls).replicas(self.replicas);
        if let Some((user, password)) = &self.user {
            config = config.credentials(user, password);
        }
        if let Some(time) = self.habit.hand_over_ms {
            config = config.local_handoff(10_000, millis(time));
        }
        config
    }
}

/// Several URLs, separated by spaces, are a quorum.
pub fn config(urls: &str) -> Config {
    let urls: Vec<_> = urls.split(' ').collect();
    match urls[..] {
        [url] => Config::new(url),
        _ => Config::quorum(urls),
    }
}
