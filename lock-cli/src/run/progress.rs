//! What a person at a terminal sees while the lock is held by another.

use crate::text::{duration, escaped};
use std::io::{IsTerminal, Write, stderr};
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, interval_at};

const PERIOD: Duration = Duration::from_secs(1);

/// The line of progress, which is erased at the end.
struct Line;

impl Line {
    fn write(text: &str) {
        let _ = write!(stderr(), "\r\u{1b}[K{text}");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        Line::write("");
    }
}

/// Returns the future's output. Says on a terminal once a second that the lock is not acquired yet.
pub(crate) async fn shown<F: Future>(key: &str, acquire: F) -> F::Output {
    let mut acquire = pin!(acquire);
    if !stderr().is_terminal() {
        return acquire.await;
    }
    let start = Instant::now();
    let mut ticks = interval_at(start + PERIOD, PERIOD);
    let mut line = None;
    loop {
        tokio::select! {
            acquired = &mut acquire => return acquired,
            _ = ticks.tick() => {
                line.get_or_insert(Line);
                let waited = duration(start.elapsed());
                Line::write(&format!("waiting for lock `{}`, {waited}", escaped(key)));
            }
        }
    }
}
