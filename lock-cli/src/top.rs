//! `locks top`: the locks that are held longest.

use crate::args::{List, Server};
use crate::connect::connect_to_look;
use crate::exit::{DONE, Failure, UNAVAILABLE};
use crate::list::{Found, longest, overview, say_rivals, say_unlisted};
use crate::output::{clear, height, is_json, print, print_json};
use crate::show::object;
use lock_runtime::{LockInfo, LockManager};
use std::cmp::Reverse;
use std::time::Duration;

/// How many locks are looked at to find those that are held longest.
const MOST: usize = 1000;

pub(crate) async fn top(
    server: &Server,
    options: &List,
    every: Option<Duration>,
) -> Result<u8, Failure> {
    let locks = connect_to_look(server).await?;
    loop {
        let looked = look(&locks, options).await;
        let Some(every) = every else {
            return looked.map(|()| DONE);
        };
        // What was printed last stays on the screen.
        let is_known = match looked {
            Err(outage) if outage.code == UNAVAILABLE => {
                outage.report();
                false
            }
            looked => looked.map(|()| true)?,
        };
        tokio::time::sleep(every).await;
        let _ = locks.ask_for_reports().await;
        if is_known && !is_json() {
            clear();
        }
    }
}

async fn look(locks: &LockManager, options: &List) -> Result<(), Failure> {
    let all = List {
        limit: options.limit.max(MOST),
        ..options.clone()
    };
    let found = Found::by(locks, &all).await?;
    say_rivals(&found.locks);
    let (unlisted_held, unlisted) = found.unlisted(options);
    say_unlisted(unlisted);
    // Whether others are meant, too, is unknown.
    let more = match options.chooses() {
        true => 0,
        false => unlisted_held,
    };
    let is_cut = found.is_cut;
    let mut found = found.locks;
    found.sort_by_key(|lock| Reverse(longest(lock)));
    let lines = height().map_or(usize::MAX, |lines| lines.saturating_sub(5).max(1));
    let shown = &found[..found.len().min(options.limit)];
    if is_json() {
        shown.iter().for_each(|lock| print_json(&object(lock)));
        return Ok(());
    }
    let shown = &shown[..shown.len().min(lines)];
    let at_least = if is_cut { "at least " } else { "" };
    let summary = summary(&found, more);
    print(&format!("{at_least}{summary}\n\n{}", overview(shown)));
    let left = (found.len() - shown.len()) as u64 + more;
    if left > 0 {
        print(&format!("and {left} more\n"));
    }
    Ok(())
}

/// `more`: those that are held, and not found.
fn summary(found: &[LockInfo], more: u64) -> String {
    let is_kept = |lock: &&LockInfo| lock.holders().iter().any(|holder| holder.is_kept());
    let kept = found.iter().filter(is_kept).count();
    let held = found.iter().filter(|lock| !lock.holders().is_empty());
    let held = (held.count() - kept) as u64 + more;
    let waiting: u64 = found.iter().map(|lock| lock.waiting()).sum();
    let locks = if held == 1 { "lock" } else { "locks" };
    let processes = if waiting == 1 { "process" } else { "processes" };
    let kept = match kept {
        0 => String::new(),
        kept => format!("{kept} kept, "),
    };
    format!("{held} {locks} held, {kept}{waiting} {processes} waiting")
}
