//! Waiting for the answers of processes that were asked to report.

use crate::exit::Failure;
use lock_runtime::LockManager;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// The longest time: a process that has not answered is silent before.
const LONGEST: Duration = Duration::from_secs(4);

/// Looks until each process that was asked has answered, or is silent. `awaits`: the look has found one that
/// is about to.
pub(crate) async fn settled<T>(
    locks: &LockManager,
    look: impl AsyncFn() -> Result<T, Failure>,
    awaits: impl Fn(&T) -> bool,
) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        let found = look().await?;
        if !awaits(&found) || begun.elapsed() > LONGEST {
            return Ok(found);
        }
        sleep(PAUSE).await;
        // An ask may be lost.
        let _ = locks.ask_for_reports().await;
    }
}
