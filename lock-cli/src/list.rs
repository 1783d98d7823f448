//! `locks list`: the locks in use.

use crate::args::{List, Server};
use crate::connect::{connect_to_look, say_where};
use crate::exit::{DONE, Failure};
use crate::output::{print, print_json, say};
use crate::show::{held, held_at_most, object, rest_of_lease, who};
use crate::table::table;
use lock_runtime::{LockInfo, LockManager, ProcessInfo};
use std::time::Duration;

pub(crate) async fn list(server: &Server, options: &List, as_json: bool) -> Result<u8, Failure> {
    let locks = connect_to_look(server).await?;
    let (found, is_cut) = chosen(&locks, options).await?;
    match as_json {
        true => found.iter().for_each(|lock| print_json(&object(lock))),
        false => print(&overview(&found)),
    }
    if found.is_empty() && !as_json {
        say_where(server);
        if !options.scan {
            say("on Redis, `--scan` also finds the locks of other clients");
        }
    }
    if is_cut {
        say(&format!(
            "no more than {} locks were looked at; `--limit` sets how many",
            options.limit
        ));
    }
    say_unlisted(Unlisted::of(&locks, options).await.all);
    Ok(DONE)
}

/// How many locks the processes hold that their reports don't name.
pub(crate) struct Unlisted {
    pub(crate) held: u64,
    /// With those that are kept or waited for.
    pub(crate) all: u64,
}

impl Unlisted {
    pub(crate) async fn of(locks: &LockManager, options: &List) -> Unlisted {
        let processes = match options.scan {
            true => Vec::new(),
            // Whoever may not read the reports finds the locks without them, or gets an error.
            false => locks.processes().await.unwrap_or_default(),
        };
        let sum = |count: fn(&ProcessInfo) -> u64| processes.iter().map(count).sum();
        Unlisted {
            held: sum(ProcessInfo::unlisted_held),
            all: sum(ProcessInfo::unlisted),
        }
    }
}

pub(crate) fn say_unlisted(unlisted: u64) {
    if unlisted > 0 {
        say(&format!(
            "the reports of the processes do not name {unlisted} more locks; `--scan` finds them"
        ));
    }
}

/// Returns the locks that are meant, and `true` if there may be more than the limit.
pub(crate) async fn chosen(
    locks: &LockManager,
    options: &List,
) -> Result<(Vec<LockInfo>, bool), Failure> {
    let list = locks.list(&*options.beginning).limit(options.limit);
    let list = if options.scan { list.scan() } else { list };
    let mut found = list.await?;
    let is_cut = found.len() == options.limit;
    // One without a report may be held for long.
    let longer_than = |lock: &LockInfo, least| longest(lock).is_none_or(|held| held > least);
    found.retain(|lock| {
        options
            .longer_than
            .is_none_or(|least| longer_than(lock, least))
            && (!options.waiting || lock.waiting() > 0)
    });
    Ok((found, is_cut))
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
