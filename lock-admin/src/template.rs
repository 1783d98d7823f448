//! The places in the code that use locks.

use crate::claim::Claim;
use crate::history::History;
use crate::lock::Lock;
use crate::recorder::{Quantiles, Recorded};
use crate::text::{age, visible};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

const NO_TEMPLATE: &str = "no template";

/// What a place in the code does.
pub(crate) struct Template {
    pub(crate) name: String,
    pub(crate) held: u64,
    pub(crate) waiting: u64,
    pub(crate) waits: Option<Quantiles>,
    pub(crate) holds: Option<Quantiles>,
    /// The steps of 5 s in which the locks were seen, with the number of those held.
    pub(crate) spark: Vec<(u64, u64)>,
}

pub(crate) fn templates(
    locks: &[Lock],
    recorded: Option<&Recorded>,
    history: &History,
    at: SystemTime,
    seen_at: SystemTime,
) -> Vec<Template> {
    #[derive(Default)]
    struct Seen {
        held: u64,
        waiting: u64,
        holds: Vec<Duration>,
        waits: Vec<Duration>,
    }
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for lock in locks {
        let template = seen.entry(lock.template()).or_default();
        template.held += lock.in_calls().count() as u64;
        template.waiting = template.waiting.saturating_add(lock.waiting);
        let ago = |claim: &Claim| Some(age(claim.since?, seen_at));
        template.holds.extend(lock.in_calls().filter_map(ago));
        template.waits.extend(lock.waiters.iter().filter_map(ago));
    }
    let calls = recorded.map(|it| &it.calls);
    for name in calls.into_iter().flat_map(|calls| calls.keys()) {
        seen.entry(name).or_default();
    }
    for name in history.templates() {
        seen.entry(name).or_default();
    }
    let mut templates: Vec<_> = seen
        .into_iter()
        .map(|(name, seen)| {
            let (waits, holds) = match calls {
                Some(calls) => {
                    let calls = calls.get(name);
                    let waits = calls.and_then(|it| it.waits.quantiles());
                    (waits, calls.and_then(|it| it.holds.quantiles()))
                }
                None => (quantiles(seen.waits), quantiles(seen.holds)),
            };
            Template {
                name: match name {
                    "" => NO_TEMPLATE.to_owned(),
                    name => visible(name),
                },
                held: seen.held,
                waiting: seen.waiting,
                waits,
                holds,
                spark: history.spark(name, at),
            }
        })
        .collect();
    // Of a lock whose process has not reported yet.
    templates.retain(|it| it.held.max(it.waiting) > 0 || it.name != NO_TEMPLATE);
    templates.sort_by_key(|it| std::cmp::Reverse((it.waiting, it.held)));
    templates
}

/// Returns the half and the 99th hundredth.
fn quantiles(mut times: Vec<Duration>) -> Option<Quantiles> {
    times.sort();
    let at = |part: f64| {
        let rank = (times.len() as f64 * part).ceil() as usize;
        times.get(rank.saturating_sub(1)).copied()
    };
    Some((at(0.5)?, at(0.99)?))
}
