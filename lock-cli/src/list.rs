//! `locks list`: the locks in use.

use crate::args::{List, Server};
use crate::connect::{connect_to_look, say_where};
use crate::exit::{DONE, Failure};
use crate::output::{print, print_json, say};
use crate::show::{held, held_at_most, object, rest_of_lease, who};
use crate::table::table;
use lock_runtime::{LockInfo, LockManager};
use std::time::Duration;

pub(crate) async fn list(server: &Server, options: &List, as_json: bool) -> Result<u8, Failure> {
    let locks = connect_to_look(server).await?;
    let found = chosen(&locks, options).await?;
    match as_json {
        true => found.iter().for_each(|lock| print_json(&object(lock))),
        false => print(&overview(&found)),
    }
    if found.is_empty() && !as_json {
        say_where(server);
    }
    if found.len() == options.limit {
        say(&format!(
            "these are the first {}; `--limit` sets how many",
            found.len()
        ));
    }
    Ok(DONE)
}

/// Returns the locks that are meant.
pub(crate) async fn chosen(locks: &LockManager, options: &List) -> Result<Vec<LockInfo>, Failure> {
    let list = locks.list(&*options.beginning).limit(options.limit);
    let list = if options.scan { list.scan() } else { list };
    let mut found = list.await?;
    // One of which nobody knows that may be held for long.
    let longer_than = |lock: &LockInfo, least| longest(lock).is_none_or(|held| held > least);
    found.retain(|lock| {
        options
            .longer_than
            .is_none_or(|least| longer_than(lock, least))
            && (!options.waiting || lock.waiting() > 0)
    });
    Ok(found)
}

/// Returns for how long the one that holds it longest has it.
pub(crate) fn longest(lock: &LockInfo) -> Option<Duration> {
    lock.holders().iter().filter_map(held_at_most).max()
}

/// Returns a table, in which a lock that several share has several lines.
pub(crate) fn overview(locks: &[LockInfo]) -> String {
    let mut rows = Vec::new();
    for lock in locks {
        let waiting = match lock.waiting() {
            0 => String::new(),
            waiting => waiting.to_string(),
        };
        let key = || lock.key().to_owned();
        for holder in lock.holders() {
            let place = holder.place().or_else(|| holder.label());
            rows.push([
                key(),
                match holder.is_kept() {
                    true => format!("kept {}", held(holder)),
                    false => held(holder),
                },
                rest_of_lease(holder),
                waiting.clone(),
                who(holder),
                place.unwrap_or_default().to_owned(),
            ]);
        }
        if lock.holders().is_empty() {
            let empty = String::new;
            rows.push([key(), empty(), empty(), waiting, empty(), empty()]);
        }
    }
    match rows.is_empty() {
        true => "no locks\n".to_owned(),
        false => table(["KEY", "HELD", "LEASE", "WAITING", "HOLDER", "FOR"], rows),
    }
}
