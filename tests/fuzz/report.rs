//! The results of all calls, and panics in any thread.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use lock_runtime::LockError;
use lock_test_support::time::PATIENCE;

use crate::malformed_replies::KINDS;

static PANICS: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
pub struct Report {
    calls: Mutex<BTreeMap<&'static str, (u64, Duration)>>,
    errors: Mutex<BTreeMap<String, u64>>,
    memory: u64,
}

impl Report {
    /// Counts panics from now on.
    pub fn start() -> Arc<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                PANICS.fetch_add(1, Relaxed);
                usual(panic);
            }));
        });
        Arc::new(Self {
            memory: peak_memory(),
            ..Self::default()
        })
    }

    /// Makes a call, which must end within its bound; an error must state its cause.
    pub async fn call<T>(
        &self,
        what: &'static str,
        bound: Duration,
        call: impl Future<Output = Result<T, LockError>>,
    ) -> Option<T> {
        let start = Instant::now();
        let answer = tokio::time::timeout(bound + PATIENCE, call).await;
        let answer = answer.unwrap_or_else(|_| panic!("`{what}` hangs, after {bound:?}"));
        {
            let mut calls = self.calls.lock().unwrap();
            let (number, longest) = calls.entry(what).or_default();
            *number += 1;
            *longest = start.elapsed().max(*longest);
        }
        answer.map_err(|error| self.failed(&error)).ok()
    }

    fn failed(&self, error: &LockError) {
        assert!(!error.to_string().is_empty());
        let name = match error {
            LockError::Busy { .. } => "busy".to_owned(),
            LockError::Lost { cause, .. } => format!("lost: {cause:?}"),
            LockError::InvalidConfig { .. } => {
                let cause = error.source().map(ToString::to_string);
                format!(
                    "rejected: {}",
                    kind(&cause.unwrap_or_else(|| error.to_string()))
                )
            }
            LockError::Unavailable { .. } => {
                let cause = error
                    .source()
                    .expect("an unavailable error has a source")
                    .to_string();
                assert!(!cause.is_empty(), "an error without a cause: {error:?}");
                format!("unavailable: {}", kind(&cause))
            }
            LockError::ShuttingDown { .. } => "shutting down".to_owned(),
            other => panic!("an unexpected kind of error: {other:?}"),
        };
        *self.errors.lock().unwrap().entry(name).or_default() += 1;
    }

    /// Prints the report, and fails on panics or excessive memory.
    pub fn end(&self, sent: &[&[AtomicU64; KINDS.len()]]) {
        for (kind, name) in KINDS.iter().enumerate() {
            let lies: u64 = sent.iter().map(|sent| sent[kind].load(Relaxed)).sum();
            if lies > 0 {
                println!("lies    {lies:>7} {name}");
            }
        }
        let total: u64 = sent
            .iter()
            .flat_map(|t| t.iter())
            .map(|t| t.load(Relaxed))
            .sum();
        println!("lies    {total:>7} in all");
        for (call, (number, longest)) in &*self.calls.lock().unwrap() {
            println!("calls   {number:>7} {call}, at most {longest:.0?}");
        }
        for (error, number) in &*self.errors.lock().unwrap() {
            println!("errors  {number:>7} {error}");
        }
        let grown = peak_memory().saturating_sub(self.memory);
        println!("memory  {grown:>7} kB above the start at most");
        assert!(
            grown < 256 * 1024,
            "false replies took {grown} kB of memory"
        );
        assert_eq!(PANICS.load(Relaxed), 0, "panics");
    }
}

/// Returns the part of the text that is the same for all errors of a kind.
fn kind(cause: &str) -> String {
    let mut words = cause.split([':', '-', '(', '"', ';']);
    let words = words.find(|words| words.trim().len() > 1).unwrap_or(cause);
    let words: String = words
        .chars()
        .filter(|c| !c.is_ascii_digit())
        .take(60)
        .collect();
    words.trim().to_owned()
}

/// Returns the peak memory in kB; 0 where it is unknown.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}
