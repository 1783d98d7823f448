//! The callers of one worker: the functions that they call, and the events that they record.

mod body;
mod functions;
mod set_aside;
mod threads;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::LockManager;
use tokio::sync::watch;

use crate::instructions::{BodyLength, Instructions, Workload};
use crate::journal::{CallKind, EventKind, Journal};
use crate::resource::Account;
use body::{Call, steps};
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

pub const ON_PURPOSE: &str = "on purpose";

/// The wait timeout of a call that is not meant to give up.
const LONG: Duration = Duration::from_secs(60);

/// The wait timeout of the last calls: longer than any lease that may be left.
const LAST: Duration = millis(20_000);

/// How long a task blocks its thread after it has dropped a guard.
const BLOCK: Duration = millis(700);

/// The longest time for which a call is not polled. A grant passes on after 2 s.
const ASIDE: Duration = millis(4000);

#[derive(Clone, Copy, PartialEq)]
pub enum Phase {
    /// Calls run on the runtime with this number.
    Works(u64),
    /// The calls end by themselves.
    Ends,
    /// They are dropped with their runtime, and the process ends.
    Leaves,
}

/// Makes the calls of one worker.
#[derive(Clone)]
pub struct Caller {
    pub locks: LockManager,
    journal: Arc<Journal>,
    worker: u32,
    calls: Arc<AtomicU64>,
    keys: u32,
    ttl: Duration,
    resource: PathBuf,
    fenced: bool,
    workload: Workload,
}

impl Caller {
    pub fn new(
        instructions: &Instructions,
        worker: u32,
        journal: Arc<Journal>,
        locks: LockManager,
    ) -> Self {
        Self {
            locks,
            journal,
            worker,
            calls: Arc::default(),
            keys: instructions.keys,
            ttl: millis(instructions.ttl_ms),
            resource: instructions.resource.clone(),
            fenced: instructions.fenced,
            workload: instructions.workload.clone(),
        }
    }

    /// Returns a caller that continues with another manager.
    pub fn with(&self, locks: LockManager) -> Self {
        Self {
            locks,
            ..self.clone()
        }
    }

    /// Records that all calls were dropped, and that their process ends.
    pub fn left(&self) {
        let (threads, tasks) = (0, 0);
        self.journal.write(0, EventKind::RuntimeDropped);
        self.journal.write(0, EventKind::Exited { threads, tasks });
    }

    /// Calls one function after the other until the phase changes.
    pub async fn call_during(
        self: Arc<Self>,
        now: Phase,
        phase: watch::Receiver<Phase>,
        mut rng: Rng,
    ) {
        while *phase.borrow() == now {
            let kind = self.any_way(&mut rng);
            let is_routed = self.workload.strays;
            let is_routed = is_routed.is_some_and(|strays| !rng.one_in(strays));
            let key = match is_routed {
                true => self.worker % self.keys,
                false => rng.below(u64::from(self.keys)) as u32,
            };
            let wait = match self.workload.wait_ms {
                Some(wait) => millis(wait),
                None if rng.one_in(4) => LONG,
                None => millis(rng.below(1000)),
            };
            let pace = self.workload.pace;
            self.call(kind, key, wait, pace, &mut rng).await;
            tokio::time::sleep(millis(rng.below(self.workload.pause_ms))).await;
        }
    }

    fn any_way(&self, rng: &mut Rng) -> CallKind {
        let kinds = &self.workload.calls;
        let any = |rng: &mut Rng| kinds[rng.below(kinds.len() as u64) as usize];
        match any(rng) {
            kind if kind.is_rare() && !rng.one_in(5) => any(rng),
            kind => kind,
        }
    }

    fn any_ttl(&self, rng: &mut Rng) -> Duration {
        let ttls = &self.workload.ttls_ms;
        match ttls.len() as u64 {
            0 => self.ttl,
            ttls_count => millis(ttls[rng.below(ttls_count) as usize]),
        }
    }

    pub async fn call_each_once(&self, rng: &mut Rng) {
        for key in 0..self.keys {
            self.call(CallKind::Waits, key, LAST, BodyLength::Short, rng)
                .await;
        }
    }

    async fn call(
        &self,
        kind: CallKind,
        key: u32,
        wait: Duration,
        pace: BodyLength,
        rng: &mut Rng,
    ) {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        let ttl = self.any_ttl(rng);
        // Long leases do not make bodies longer.
        let length = ttl.min(self.ttl);
        let mut keys = vec![key];
        if kind.is_of_several() {
            keys.extend(self.other_keys(key, rng));
        }
        let lazy = self.workload.lazy && kind.may_be_lazy() && !rng.one_in(4);
        let account = |key: &u32| Account::new(&self.resource, self.worker, *key);
        let call = Call {
            locks: self.locks.clone(),
            journal: self.journal.clone(),
            number,
            key,
            lazy,
            ttl,
            max_hold: length / 2,
            wait: match kind {
                CallKind::TriesOnce | CallKind::Polls => Duration::ZERO,
                CallKind::OwnRuntime | CallKind::ThreadLocal => wait.min(millis(5000)),
                _ => wait,
            },
            patience: millis(self.workload.patience_ms),
            accounts: keys.iter().map(account).collect(),
            // Holders that share permits have no tokens.
            fenced: self.fenced && (kind.limit() == 1 || kind.reads()),
            asks: kind == CallKind::Continues,
            shares: kind.limit() > 1,
            steps: steps(kind, ttl, length, pace, rng),
        };
        let called = EventKind::Called {
            key,
            others: keys[1..].to_vec(),
            kind,
            lazy,
            ttl: ttl.as_nanos() as u64,
            wait: call.wait.as_nanos() as u64,
        };
        self.journal.write(number, called);
        let outcome = call.make(kind, rng).await;
        self.journal.write(number, EventKind::Ended { outcome });
        if kind == CallKind::ThenBlocks {
            // In the same poll in which the guard was dropped.
            self.journal.blocked(|| std::thread::sleep(BLOCK));
        }
    }

    /// Returns one or two keys other than `key`.
    fn other_keys(&self, key: u32, rng: &mut Rng) -> Vec<u32> {
        let next = 1 + rng.below(u64::from(self.keys) - 2) as u32;
        let others = [(key + next) % self.keys, (key + next + 1) % self.keys];
        others[..1 + rng.below(2) as usize].to_vec()
    }
}
