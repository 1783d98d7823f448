//! The instructions for a worker process.

use std::path::{Path, PathBuf};

use lock_runtime::Config;
use serde::{Deserialize, Serialize};

use crate::journal::CallKind;
use lock_test_support::time::millis;

/// The instructions for one worker process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Instructions {
    /// The URL of the server; several, separated by spaces, form a quorum.
    pub urls: String,
    /// The number of the first worker, and the number of workers; each has its own lock manager.
    pub first: u32,
    pub managers: u32,
    /// The number of locks that the workers compete for.
    pub keys: u32,
    pub ttl_ms: u64,
    pub seed: u64,
    /// The directory of the journals, one per worker.
    pub journals: PathBuf,
    /// The socket of the resource.
    pub resource: PathBuf,
    /// `true` if bodies request fencing tokens and write with them.
    pub fenced: bool,
    pub replicas: u32,
    /// The ACL user and its password.
    pub user: Option<(String, String)>,
    pub workload: Workload,
}

/// How workers use the locks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// The number of concurrent calls of each worker.
    pub tasks: u32,
    /// The kinds of functions that a worker calls.
    pub calls: Vec<CallKind>,
    /// Three of four calls leave the lock to their process, if their kind [may](CallKind::may_be_lazy).
    pub lazy: bool,
    /// Calls are routed: each worker calls for one key of its own, but with every call of that many for any
    /// key.
    pub strays: Option<u64>,
    /// The kinds for each of the processes that are started first, instead of `calls`; there may be fewer.
    pub first_calls: Vec<Vec<CallKind>>,
    /// The wait timeout of every call.
    pub wait_ms: Option<u64>,
    pub pace: BodyLength,
    /// The longest pause between two calls of a task.
    pub pause_ms: u64,
    /// The longest time after which a call that is to be dropped is dropped.
    pub patience_ms: u64,
    /// Calls use one of these at random, instead of the usual ttl.
    pub ttls_ms: Vec<u64>,
    /// The time limit for local handoff, instead of the default.
    pub hand_over_ms: Option<u64>,
    /// `true` if some runtimes have I/O disabled.
    pub without_io: bool,
    /// `true` if the subscriber panics on events that are logged on the I/O thread.
    pub panicking_log: bool,
}

/// The duration of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum BodyLength {
    /// Most are short; some need their lease to be renewed.
    Mixed,
    Short,
    /// Longer than the ttl, in many small steps.
    Lingering,
    /// `ms`, in many small steps.
    Held {
        ms: u64,
    },
    /// Any time up to `ms`, in many small steps.
    UpTo {
        ms: u64,
    },
    /// Short with a short lease; with a longer one, until the granted lease is renewed.
    ByTtl,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            tasks: 3,
            calls: CallKind::ALL.to_vec(),
            lazy: true,
            strays: None,
            first_calls: Vec::new(),
            wait_ms: None,
            pace: BodyLength::Mixed,
            pause_ms: 20,
            patience_ms: 100,
            ttls_ms: Vec::new(),
            hand_over_ms: None,
            without_io: true,
            panicking_log: false,
        }
    }
}

impl Workload {
    /// Returns the workload of exclusive callers and callers that share the lock, on the same keys.
    pub fn mixed(sharing: &[CallKind]) -> Self {
        Self {
            calls: [CallKind::USUAL, sharing, sharing].concat(),
            ..Self::default()
        }
    }

    /// Routes the calls, and makes them so seldom that locks are kept for most of the time.
    pub fn routed(self) -> Self {
        let lazy = self.calls.iter().copied();
        let lazy: Vec<_> = lazy.filter(|kind| kind.may_be_lazy()).collect();
        Self {
            tasks: 2,
            calls: [lazy.repeat(4), self.calls].concat(),
            strays: Some(20),
            pause_ms: 100,
            ..self
        }
    }

    /// Returns the workload of a process that is started at that position, or later in place of another.
    pub fn of_process(&self, position: Option<usize>) -> Self {
        let first = position.and_then(|position| self.first_calls.get(position));
        Self {
            calls: first.unwrap_or(&self.calls).clone(),
            ..self.clone()
        }
    }

    /// Returns `true` if some callers share a lock.
    pub fn is_mixed(&self) -> bool {
        let calls = self.first_calls.iter().flatten().chain(&self.calls);
        calls.into_iter().any(|kind| kind.limit() > 1)
    }
}

impl Instructions {
    pub fn journal(directory: &Path, worker: u32) -> PathBuf {
        directory.join(format!("{worker}.jsonl"))
    }

    pub fn config(&self) -> Config {
        let mut config = config(&self.urls).replicas(self.replicas);
        if let Some((user, password)) = &self.user {
            config = config.credentials(user, password);
        }
        if let Some(time) = self.workload.hand_over_ms {
            config = config.local_handoff(10_000, millis(time));
        }
        config
    }
}

/// Returns the configuration for a URL, or for a quorum of several that are separated by spaces.
pub fn config(urls: &str) -> Config {
    let urls: Vec<_> = urls.split(' ').collect();
    match urls[..] {
        [url] => Config::new(url),
        _ => Config::quorum(urls),
    }
}
