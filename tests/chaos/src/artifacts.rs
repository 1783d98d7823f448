//! The files that are kept of a schedule that broke a promise.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::checker::Verdict;
use crate::schedule::RunResult;
use crate::trace;

/// Writes the history and the verdict to a directory, and returns its path.
pub fn keep(played: &RunResult, verdict: &Verdict) -> PathBuf {
    let name = format!(
        "{}-{}",
        played.scene.unwrap_or(played.topology.name()),
        played.seed
    );
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/chaos")
        .join(&name);
    fs::create_dir_all(&directory).unwrap();
    let mut events = played.history.events.clone();
    events.sort_by_key(|event| event.at);
    let start = events.first().map_or(0, |event| event.at);
    let since = |at: u64| at.saturating_sub(start) as f64 / 1e6;
    let mut text = String::new();
    for event in &events {
        let (at, worker, call) = (since(event.at), event.worker, event.call);
        writeln!(
            text,
            "{at:9.3} worker {worker} call {call}: {:?}",
            event.what
        )
        .unwrap();
    }
    fs::write(directory.join("events.txt"), text).unwrap();
    let mut text = String::new();
    for fault in &played.history.faults {
        let (from, until) = (since(fault.from), since(fault.until));
        writeln!(text, "{from:9.3} to {until:9.3}: {fault:?}").unwrap();
    }
    fs::write(directory.join("faults.txt"), text).unwrap();
    let mut text = String::new();
    for write in &played.history.writes {
        writeln!(text, "{:9.3} {write:?}", since(write.at)).unwrap();
    }
    fs::write(directory.join("writes.txt"), text).unwrap();
    let mut text = format!("{}\n", played.plan);
    for violation in &verdict.violations {
        writeln!(text, "{violation}").unwrap();
    }
    fs::write(directory.join("plan.txt"), text).unwrap();
    fs::write(directory.join("trace.json"), trace::of(&played.history)).unwrap();
    directory
}
