//! Looks at the lock server for all viewers, and not at all when there is none.

use crate::fragment::Fragments;
use crate::history::History;
use crate::look::{Check, look};
use crate::options::Options;
use crate::state::State;
use lock_runtime::LockInfo;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Looks at most once in each interval.
pub(crate) struct Sampler {
    pub(crate) options: Options,
    memory: tokio::sync::Mutex<Memory>,
    seen: watch::Sender<Option<Arc<Seen>>>,
    is_running: Mutex<bool>,
}

/// What was seen, and how it is shown.
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) fragments: Fragments,
    /// The tokens of each lock's claims, and its key, which is not shown; empty unless keys are redacted.
    pub(crate) keys: Vec<(Vec<String>, String)>,
}

#[derive(Default)]
struct Memory {
    history: History,
    check: Check,
    /// When the last look began, and when it ended.
    looked: Option<(Instant, Instant)>,
}

impl Sampler {
    pub(crate) fn new(options: Options) -> Sampler {
        Sampler {
            options,
            memory: tokio::sync::Mutex::default(),
            seen: watch::Sender::new(None),
            is_running: Mutex::new(false),
        }
    }

    /// Returns what is seen now, or was less than an interval ago. All that call it at a time share one look.
    pub(crate) async fn look(&self) -> Arc<Seen> {
        let called = Instant::now();
        let mut memory = self.memory.lock().await;
        let is_new = |(begun, ended): (Instant, Instant)| {
            begun.elapsed() < self.interval() || called <= ended
        };
        let last = self.seen.borrow().clone();
        if let Some(last) = last.as_ref().filter(|_| memory.looked.is_some_and(is_new)) {
            return last.clone();
        }
        let begun = Instant::now();
        let options = &self.options;
        let found = look(&options.manager).await;
        // Of a server that does not reply it would say nothing else.
        if found.ping.is_ok() {
            memory.check.refresh(&options.manager).await;
        }
        let keys = match (&options.redact, &found.locks) {
            (None, _) => Vec::new(),
            (Some(_), Ok(locks)) => locks.iter().map(key_of).collect(),
            // The links to these are still shown.
            (Some(_), Err(_)) => last.iter().flat_map(|it| it.keys.clone()).collect(),
        };
        let Memory { history, check, .. } = &mut *memory;
        let before = last.as_ref().map(|it| &it.state);
        let state = State::of(found, check, options, history, before);
        let fragments = Fragments::of(&state, last.as_ref().map(|it| &it.fragments));
        let seen = Arc::new(Seen {
            state,
            fragments,
            keys,
        });
        memory.looked = Some((begun, Instant::now()));
        self.seen.send_replace(Some(seen.clone()));
        seen
    }

    /// Returns what is seen from now on. The locks are looked at until the last receiver is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> watch::Receiver<Option<Arc<Seen>>> {
        let mut is_running = self.is_running();
        let receiver = self.seen.subscribe();
        if !*is_running {
            *is_running = true;
            let running = Running {
                sampler: self.clone(),
                is_over: false,
            };
            tokio::spawn(running.run());
        }
        receiver
    }

    async fn run(&self) {
        while self.goes_on() {
            let begun = Instant::now();
            self.look().await;
            tokio::time::sleep_until(begun + self.interval()).await;
        }
    }

    /// Returns `false` without a viewer: the next one starts it anew.
    fn goes_on(&self) -> bool {
        let mut is_running = self.is_running();
        *is_running = self.seen.receiver_count() > 0;
        *is_running
    }

    /// Returns how often processes report.
    pub(crate) fn interval(&self) -> Duration {
        self.options.manager.report_interval()
    }

    fn is_running(&self) -> std::sync::MutexGuard<'_, bool> {
        self.is_running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_of(lock: &LockInfo) -> (Vec<String>, String) {
    let claims = lock.holders().iter().chain(lock.waiters());
    let tokens = claims.map(|claim| claim.token().to_owned());
    (tokens.collect(), lock.key().to_owned())
}

/// The task that looks, which its runtime may end.
struct Running {
    sampler: Arc<Sampler>,
    is_over: bool,
}

impl Running {
    async fn run(mut self) {
        self.sampler.run().await;
        self.is_over = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            *self.sampler.is_running() = false;
        }
    }
}
