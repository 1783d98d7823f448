//! The page for programs.

use crate::claim::Claim;
use crate::lock::Lock;
use crate::state::State;
use crate::text::millis;
use lock_runtime::{LeaseInfo, Warning};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns all that the page shows; times in milliseconds since 1970. Locks and processes are those that were
/// seen last, which is at the time `at` if the server says so.
pub(crate) fn json(state: &State) -> Value {
    let processes = state.processes.iter().map(|it| {
        json!({
            "process": it.who.id, "name": it.who.name, "place": it.who.place, "held": it.held,
            "waiting": it.waiting, "lost": it.lost, "started": millis(it.started), "silent_since": it.silent_since.map(millis),
        })
    });
    let templates = state.templates.iter().map(|it| {
        let quantiles = |of: Option<(Duration, Duration)>| {
            of.map(|(half, most)| json!({ "p50_us": micros(half), "p99_us": micros(most) }))
        };
        json!({
            "template": it.name, "held": it.held, "waiting": it.waiting, "waits": quantiles(it.waits),
            "holds": quantiles(it.holds),
        })
    });
    let problems = state.problems.iter().map(|it| {
        json!({
            "wrong": it.is_bad, "kind": it.word, "title": it.title, "details": it.details, "since": it.since.map(millis),
            "key": it.lock.as_ref().map(|(key, _)| key),
        })
    });
    let events = state.events.iter().map(|it| {
        json!({ "at": millis(it.at), "event": it.what, "key": it.key, "details": it.details, "wrong": it.is_bad })
    });
    let warning = |it: &Warning| {
        json!({
            "server": it.server(), "kind": format!("{:?}", it.kind()), "finding": it.finding(),
            "consequence": it.consequence(), "remedy": it.remedy(),
        })
    };
    let warnings = state.warnings.as_ref();
    let warnings = warnings.map(|all| all.iter().map(warning).collect::<Vec<_>>());
    json!({
        "at": millis(state.at),
        "server": state.server,
        "ping_us": state.ping.as_ref().ok().map(|it| micros(*it)),
        "error": state.ping.as_ref().err(),
        "problems": problems.collect::<Vec<_>>(),
        "held": state.held(),
        "kept": state.kept(),
        "waiting": state.waiting(),
        "lost": state.lost(),
        "locks_seen": state.locks_seen.map(millis),
        "processes_seen": state.processes_seen.map(millis),
        "locks": state.locks.iter().map(lock).collect::<Vec<_>>(),
        "cut": state.lacks_locks(),
        "templates": templates.collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "warnings": warnings,
        "events": events.collect::<Vec<_>>(),
    })
}

fn lock(lock: &Lock) -> Value {
    json!({
        "key": lock.key,
        "holders": lock.holders.iter().map(holder).collect::<Vec<_>>(),
        "rivals": lock.rivals.iter().map(holder).collect::<Vec<_>>(),
        "waiting": lock.waiting,
        "waiters": lock.waiters.iter().map(claim).collect::<Vec<_>>(),
    })
}

fn claim(claim: &Claim) -> Value {
    json!({
        "process": claim.who.id, "name": claim.who.name, "place": claim.who.place, "mode": claim.mode,
        "since": claim.since.map(millis), "callers": claim.callers,
        "silent_ms": claim.silent.map(|it| micros(it) / 1000),
    })
}

fn holder(holder: &Claim) -> Value {
    let mut object = claim(holder);
    object["template"] = holder.template.clone().into();
    object["code"] = holder.place.clone().into();
    object["kept"] = holder.is_kept.into();
    object["revoked"] = holder.is_revoked.into();
    object["at_most"] = holder.is_at_most.into();
    object["lease_ms"] = match holder.lease {
        Some(LeaseInfo::Ends(left)) => (left.as_millis() as u64).into(),
        _ => Value::Null,
    };
    object
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
