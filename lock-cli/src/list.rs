//! `locks list`: the locks in use.

use crate::answers::settled;
use crate::args::{List, Server};
use crate::connect::{connect_to_look, say_where};
use crate::exit::{DONE, Failure};
use crate::output::{is_json, print, print_json, say};
use crate::show::{held, held_at_most, marked, object, rest_of_lease, who};
use crate::table::table;
use lock_runtime::{LockInfo, LockManager, ProcessInfo};
use std::time::Duration;

pub(crate) async fn list(server: &Server, options: &List) -> Result<u8, Failure> {
    let locks = connect_to_look(server).await?;
    let looked = Found::by(&locks, options).await?;
    let found = &looked.locks;
    match is_json() {
        true => found.iter().for_each(|lock| print_json(&object(lock))),
        false => print(&overview(found)),
    }
    if found.is_empty() && !is_json() {
        say_where(server);
        if !options.scan {
            say("on Redis, `--scan` also finds the locks of other clients");
        }
    }
    say_rivals(found);
    if looked.is_cut {
        say(&format!(
            "no more than {} locks were looked at; `--limit` sets how many",
            options.limit
        ));
    }
    say_unlisted(looked.unlisted(options).1);
    Ok(DONE)
}

/// What one look has found.
pub(crate) struct Found {
    /// The locks that are meant.
    pub(crate) locks: Vec<LockInfo>,
    /// There may be more than the limit.
    pub(crate) is_cut: bool,
    processes: Vec<ProcessInfo>,
}

impl Found {
    /// Looks for the locks that are meant.
    pub(crate) async fn by(locks: &LockManager, options: &List) -> Result<Found, Failure> {
        let look = async || Found::at_once(locks, options).await;
        let awaits = |found: &Found| found.processes.iter().any(ProcessInfo::is_awaited);
        settled(locks, look, awaits).await
    }

    async fn at_once(locks: &LockManager, options: &List) -> Result<Found, Failure> {
        let list = locks.list(&*options.beginning).limit(options.limit);
        let list = if options.scan { list.scan() } else { list };
        let (found, processes) = list.with_processes().await;
        let mut found = found?;
        let is_cut = found.len() == options.limit;
        // One without a report may be held for long.
        let longer_than = |lock: &LockInfo, least| longest(lock).is_none_or(|held| held > least);
        found.retain(|lock| {
            options
                .longer_than
                .is_none_or(|least| longer_than(lock, least))
                && (!options.waiting || lock.waiting() > 0)
        });
        Ok(Found {
            locks: found,
            is_cut,
            // Whoever may not read the reports finds the locks without them, or gets an error.
            processes: processes.unwrap_or_default(),
        })
    }

    /// Returns how many locks the processes hold that their reports don't name, and the same with those that
    /// are kept or waited for.
    pub(crate) fn unlisted(&self, options: &List) -> (u64, u64) {
        let sum = |count: fn(&ProcessInfo) -> u64| self.processes.iter().map(count).sum();
        match options.scan {
            true => (0, 0),
            false => (sum(ProcessInfo::unlisted_held), sum(ProcessInfo::unlisted)),
        }
    }
}

/// Says which locks two may hold.
pub(crate) fn say_rivals(locks: &[LockInfo]) {
    for lock in locks.iter().filter(|lock| !lock.rivals().is_empty()) {
        let holders: Vec<_> = lock
            .holders()
            .iter()
            .chain(lock.rivals())
            .map(who)
            .collect();
        say(&format!(
            "TWO MAY RUN AT ONCE: `{}` is held by {}, as they report; make sure that one stops",
            lock.key(),
            holders.join(" and ")
        ));
    }
}

pub(crate) fn say_unlisted(unlisted: u64) {
    if unlisted > 0 {
        say(&format!(
            "the reports of the processes do not name {unlisted} more locks; `--scan` finds them"
        ));
    }
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
        for holder in lock.holders().iter().chain(lock.rivals()) {
            let place = holder.place().or_else(|| holder.label());
            rows.push([
                key(),
                match holder.is_kept() {
                    true => format!("kept {}", held(holder)),
                    false => held(holder),
                },
                match holder.lease() {
                    Some(_) => rest_of_lease(holder),
                    None => "lost at the server".to_owned(),
                },
                waiting.clone(),
                marked(holder),
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
