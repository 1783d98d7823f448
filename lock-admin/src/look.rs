//! One look at the lock server.

use lock_runtime::{LockError, LockInfo, LockManager, ProcessInfo, Stats, Warning};
use std::error::Error;
use std::time::{Duration, Instant, SystemTime};

/// How many locks are shown.
pub(crate) const MOST: usize = 1000;

/// How long the findings about the servers' settings are believed.
const CHECK_AGAIN: Duration = Duration::from_secs(60);

/// What was found.
pub(crate) struct Look {
    pub(crate) at: SystemTime,
    pub(crate) ping: Result<Duration, String>,
    pub(crate) locks: Result<Vec<LockInfo>, String>,
    pub(crate) processes: Result<Vec<ProcessInfo>, String>,
    pub(crate) stats: Stats,
}

/// What the servers' settings may cost, which is looked at more seldom.
#[derive(Default)]
pub(crate) struct Check {
    /// `None` as long as none was looked for.
    pub(crate) warnings: Option<Vec<Warning>>,
    checked: Option<Instant>,
}

/// Looks once: asks the processes to report, and never scans the server.
pub(crate) async fn look(manager: &LockManager) -> Look {
    let begun = Instant::now();
    let ping = manager.ping().await;
    let ping = ping.map(|()| begun.elapsed()).map_err(|it| reason(&it));
    // Whoever may not ask sees what was reported before.
    if ping.is_ok() {
        let _ = manager.ask_for_reports().await;
    }
    let (locks, processes) = manager.list("").limit(MOST).with_processes().await;
    Look {
        at: SystemTime::now(),
        ping,
        locks: locks.map_err(|it| reason(&it)),
        processes: processes.map_err(|it| reason(&it)),
        stats: manager.stats(),
    }
}

impl Check {
    /// Checks the servers, unless that was done a moment ago.
    pub(crate) async fn refresh(&mut self, manager: &LockManager) {
        let is_old = |at: Instant| at.elapsed() >= CHECK_AGAIN;
        if self.checked.is_none_or(is_old) {
            self.warnings = Some(manager.check_servers().await);
            self.checked = Some(Instant::now());
        }
    }
}

/// Returns the cause of an error, without the key that its message names.
pub(crate) fn reason(error: &LockError) -> String {
    let mut texts = Vec::new();
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !texts.iter().any(|known: &String| known.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    match error {
        _ if !texts.is_empty() => texts.join(": "),
        LockError::ShuttingDown { .. } => "the service is shutting down".to_owned(),
        LockError::InvalidKey { reason, .. } => (*reason).to_owned(),
        LockError::InvalidOption { reason, .. } => (*reason).to_owned(),
        _ => "no reply".to_owned(),
    }
}
