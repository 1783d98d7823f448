//! `locks show`: who holds a lock, and who waits for it.

use crate::answers::settled;
use crate::args::Server;
use crate::connect::{connect_to_look, say_where};
use crate::exit::{DONE, Failure};
use crate::output::{heading, is_json, print, print_json, say};
use crate::processes;
use crate::text::{age, duration, escaped, millis, timestamp};
use lock_runtime::{ClaimInfo, LeaseInfo, LockInfo, Mode, ProcessInfo};
use serde_json::{Value, json};
use std::time::Duration;

/// The width of the first column.
const COLUMN: usize = 13;

pub(crate) async fn show(server: &Server, key: &str) -> Result<u8, Failure> {
    let locks = connect_to_look(server).await?;
    let look = async || Ok(locks.inspect_with_rivals(key).await?);
    let found = settled(&locks, look, awaits).await?;
    let prefix = server.prefix();
    if found.holders().is_empty() && !prefix.is_empty() && key.starts_with(prefix) {
        say(&format!(
            "the prefix `{prefix}` is added to each key: leave it out"
        ));
    }
    match is_json() {
        true => print_json(&object(&found)),
        false => print(&table(&found)),
    }
    if found.holders().is_empty() && !is_json() {
        say_where(server);
    }
    Ok(DONE)
}

/// Returns `true` if the process of a claim is about to report.
fn awaits(found: &LockInfo) -> bool {
    let mut claims = found.holders().iter().chain(found.waiters());
    claims.any(|claim| claim.process_info().is_some_and(ProcessInfo::is_awaited))
}

fn table(found: &LockInfo) -> String {
    let key = escaped(found.key());
    // At least two spaces, also after a long key.
    let spaces = COLUMN.saturating_sub(key.chars().count()).max(2);
    let mut first = format!("{}{}", heading(&key), " ".repeat(spaces));
    let mut text = String::new();
    if found.holders().is_empty() {
        text = format!("{first}free\n");
    }
    for holder in found.holders() {
        let mode = holder.mode();
        text += &format!("{first}{}, {mode}\n", escaped(&holding(holder)));
        for (name, value) in [
            ("function", holder.place()),
            ("template", holder.template()),
            ("label", holder.label()),
        ] {
            if let Some(value) = value {
                text += &row(name, &escaped(value));
            }
        }
        if holder.is_kept() {
            text += &row(
                "unused",
                "no call has it: its process gives it back when another waits",
            );
        }
        if holder.is_revoked() {
            text += &row("revoked", "asked to give it up, and has not yet");
        }
        if let Some(silence) = holder.silence() {
            let silence = duration(silence);
            text += &row(
                "silent",
                &format!("for {silence}: its process is stopped or cut off, or has ended"),
            );
        }
        text += &row("lease", &lease(holder));
        if let Some((votes, members)) = holder.votes() {
            text += &row("votes", &format!("{votes} of {members} members"));
        }
        first = " ".repeat(COLUMN);
    }
    for rival in found.rivals() {
        let rival = escaped(&holding(rival));
        let danger = "as it reports: TWO MAY RUN AT ONCE, the server has lost this hold";
        text += &row("and", &format!("{rival}, {danger}"));
    }
    let mut name = "waiting";
    for (place, waiter) in (1..).zip(found.waiters()) {
        text += &row(name, &format!("{place}  {}", waiting(waiter)));
        name = "";
    }
    let shown = found.waiters().len() as u64;
    if found.waiting() > shown {
        let more = found.waiting() - shown;
        text += &row(name, &format!("and {more} more"));
    }
    text
}

fn row(name: &str, value: &str) -> String {
    format!("  {name:width$}{value}\n", width = COLUMN - 2)
}

/// Returns for how long who has the lock.
pub(crate) fn holding(holder: &ClaimInfo) -> String {
    let verb = match holder.votes() {
        // It is in the way of others.
        Some((votes, members)) if votes * 2 <= members => "not acquired",
        _ if holder.is_kept() => "kept",
        _ => "held",
    };
    let time = match &*held(holder) {
        "" => String::new(),
        time => format!(" for {time}"),
    };
    format!("{verb}{time} by {}", who(holder))
}

/// Returns for how long the call that holds the lock has it, or its process keeps it, at the most: when it
/// asked for the lock is known also if its process has not reported.
pub(crate) fn held_at_most(holder: &ClaimInfo) -> Option<Duration> {
    holder.held_for().or_else(|| holder.since().map(age))
}

/// Returns how long that is in words.
pub(crate) fn held(holder: &ClaimInfo) -> String {
    match (holder.held_for(), held_at_most(holder)) {
        (Some(time), _) => duration(time),
        (None, Some(time)) => format!("at most {}", duration(time)),
        (None, None) => String::new(),
    }
}

fn lease(holder: &ClaimInfo) -> String {
    format!(
        "{}   token {}",
        rest_of_lease(holder),
        escaped(holder.token())
    )
}

pub(crate) fn rest_of_lease(holder: &ClaimInfo) -> String {
    match holder.lease() {
        Some(LeaseInfo::Ends(left)) => format!("{} left", duration(left)),
        Some(LeaseInfo::Never) => "never ends".to_owned(),
        Some(LeaseInfo::WithSession) => "ends with its session".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn waiting(waiter: &ClaimInfo) -> String {
    let mut text = escaped(&marked(waiter));
    if let Some(since) = waiter.since() {
        text += &format!("   {}", duration(age(since)));
    }
    if let Some(callers) = waiter.callers().filter(|callers| *callers > 1) {
        text += &format!("   {callers} calls");
    }
    if waiter.mode() != Mode::Exclusive {
        text += &format!("   {}", waiter.mode());
    }
    text
}

/// Returns who has the claim, as far as that is known.
pub(crate) fn who(claim: &ClaimInfo) -> String {
    match (claim.process_info(), claim.process()) {
        (Some(info), _) => info.to_string(),
        (None, Some(id)) => format!("process {id}"),
        (None, None) => "another client".to_owned(),
    }
}

/// Returns the same, marked if the process is silent.
pub(crate) fn marked(claim: &ClaimInfo) -> String {
    let silence = claim.silence().map(duration);
    let mark = silence.map_or(String::new(), |silence| format!(" (silent for {silence})"));
    format!("{}{mark}", who(claim))
}

pub(crate) fn object(found: &LockInfo) -> Value {
    json!({
        "key": found.key(),
        "holders": found.holders().iter().map(holder_object).collect::<Vec<_>>(),
        "rivals": found.rivals().iter().map(holder_object).collect::<Vec<_>>(),
        "waiting": found.waiting(),
        "waiters": found.waiters().iter().map(claim_object).collect::<Vec<_>>(),
    })
}

fn claim_object(claim: &ClaimInfo) -> Value {
    let (mode, permits) = match claim.mode() {
        Mode::Exclusive => ("exclusive", None),
        Mode::Permits(permits) => ("permits", Some(permits)),
        Mode::Read => ("read", None),
        _ => ("unknown", None),
    };
    json!({
        "token": claim.token(), "mode": mode, "permits": permits,
        "process": claim.process().map(|id| id.to_string()), "since": claim.since().map(timestamp),
        "reported": claim.process_info().map(processes::object), "callers": claim.callers(),
        "silent_ms": claim.silence().map(millis),
    })
}

fn holder_object(holder: &ClaimInfo) -> Value {
    let (lease, left_ms) = match holder.lease() {
        Some(LeaseInfo::Ends(left)) => ("ends", Some(millis(left))),
        Some(LeaseInfo::Never) => ("never", None),
        Some(LeaseInfo::WithSession) => ("session", None),
        _ => ("unknown", None),
    };
    let mut object = claim_object(holder);
    object["lease"] = lease.into();
    object["left_ms"] = left_ms.into();
    object["held_ms"] = holder.held_for().map(millis).into();
    object["kept"] = holder.is_kept().into();
    object["revoked"] = holder.is_revoked().into();
    object["function"] = holder.place().into();
    object["template"] = holder.template().into();
    object["label"] = holder.label().into();
    object["votes"] = holder.votes().map(|(votes, _)| votes).into();
    object["members"] = holder.votes().map(|(_, members)| members).into();
    object
}
