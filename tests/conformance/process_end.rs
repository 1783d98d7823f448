//! A process that ends in an ordinary way leaves no lock and no queue entry. `LOCK_EXITS=200` sets the number
//! of processes that end in each way.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::task::spawn_blocking;

use super::fixture::Fixture;

const EXITS: u64 = 1;

/// The processes differ by their numbers.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The keys of the locks that the process holds or acquires.
const KEYS: [&str; 10] = [
    "attribute",
    "run",
    "read",
    "again",
    "idle",
    "lazy",
    "new:0",
    "new:1",
    "new:2",
    "new:3",
];

fn exits() -> u64 {
    let exits = std::env::var("LOCK_EXITS").ok();
    exits.map_or(EXITS, |exits| exits.parse().unwrap())
}

async fn ends(fixture: Fixture, way: &'static str, succeeds: bool) {
    if !fixture.has_processes() {
        return;
    }
    let mut left = Vec::new();
    for _ in 0..exits() {
        let n = NUMBERS.fetch_add(1, Relaxed);
        let prefix = fixture.key(&n.to_string());
        let key = |name: &str| format!("{prefix}:{name}");
        let held = fixture.locks().lock(key("held")).acquire().await.unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_ends"));
        process.args([way, &prefix, &n.to_string()]);
        process.args(fixture.urls()).stderr(Stdio::null());
        let status = spawn_blocking(move || process.status());
        let status = status.await.unwrap().unwrap();
        assert_eq!(status.success(), succeeds, "{status}");
        for name in KEYS {
            if fixture.is_held(&key(name)).await {
                left.push(format!("{n}:{name}"));
            }
        }
        held.release().await.unwrap();
        if fixture.is_held(&key("held")).await {
            left.push(format!("{n}: a queue entry"));
        }
    }
    assert!(left.is_empty(), "{} left: {left:?}", left.len());
}

macro_rules! ways {
    ($($way:ident $succeeds:literal)*) => {
        $(pub async fn $way(fixture: Fixture) {
            ends(fixture, stringify!($way), $succeeds).await;
        })*
    };
}

ways! {
    returns true
    fails false
    panics false
    returns_on_one_thread true
    shuts_down true
    exits_after_its_runtime true
    drops_its_runtime true
    shuts_its_runtime_down true
    abandons_its_runtime true
    joins_a_thread true
}
