//! What is wrong, the worst first.

use crate::lock::Lock;
use crate::recorder::{Event, LOST};
use crate::text::{age, count};
use lock_runtime::Warning;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// For how long a loss is news.
pub(crate) const NEWS: Duration = Duration::from_secs(5 * 60);

/// From when on a wait is long.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(10);

/// How many locks of a silent process are named.
const NAMED: usize = 3;

/// Something that a person should look at.
pub(crate) struct Problem {
    pub(crate) is_bad: bool,
    /// Its kind.
    pub(crate) word: &'static str,
    pub(crate) title: String,
    /// Who, and what to do.
    pub(crate) details: String,
    pub(crate) since: Option<SystemTime>,
    /// The lock, and what a link to it ends with.
    pub(crate) lock: Option<(String, String)>,
}

/// What shows problems.
pub(crate) struct Evidence<'a> {
    pub(crate) at: SystemTime,
    pub(crate) server: &'a str,
    pub(crate) ping: &'a Result<Duration, String>,
    pub(crate) servers_down: u64,
    pub(crate) warnings: &'a [Warning],
    /// Why something is not shown.
    pub(crate) missing: &'a [String],
    pub(crate) locks: &'a [Lock],
    pub(crate) events: &'a [Event],
}

/// Returns all of it.
pub(crate) fn problems(evidence: &Evidence<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut say = |is_bad: bool, word: &'static str, title: String, details: String| {
        found.push(Problem {
            is_bad,
            word,
            title,
            details,
            since: None,
            lock: None,
        });
    };
    if let Err(reason) = evidence.ping {
        let title = "Locks can't be acquired".to_owned();
        say(
            true,
            "No reply",
            title,
            format!("{} does not reply: {reason}", evidence.server),
        );
    } else if evidence.servers_down > 0 {
        let title = format!("{} down", count(evidence.servers_down, "server"));
        let details = "Locks can be acquired, with fewer servers than there should be.".to_owned();
        say(true, "Down", title, details);
    }
    if evidence.ping.is_ok() {
        for reason in evidence.missing {
            let title = "The page is incomplete".to_owned();
            say(false, "Unknown", title, reason.clone());
        }
    }
    found.extend(losses(evidence));
    found.extend(silences(evidence));
    found.extend(
        evidence
            .locks
            .iter()
            .flat_map(|lock| of_lock(lock, evidence.at)),
    );
    for warning in evidence.warnings {
        found.push(Problem {
            is_bad: false,
            word: "Setting",
            title: crate::text::visible(warning.finding()),
            details: format!(
                "Danger: {}. Remedy: {}.",
                warning.consequence(),
                warning.remedy()
            ),
            since: None,
            lock: None,
        });
    }
    found.sort_by_key(|problem| !problem.is_bad);
    found
}

fn losses(evidence: &Evidence<'_>) -> impl Iterator<Item = Problem> {
    let news = evidence
        .events
        .iter()
        .filter(|event| event.what == LOST && age(event.at, evidence.at) < NEWS);
    news.map(|event| Problem {
        is_bad: event.is_bad,
        word: "Lost",
        title: match &event.key {
            Some(key) => format!("{key} was lost"),
            None if event.is_bad => "A lock was lost".to_owned(),
            None => "Locks were lost before this page was looked at".to_owned(),
        },
        details: event.details.clone(),
        since: Some(event.at),
        lock: None,
    })
}

/// Returns the processes that hold locks, and are silent.
fn silences(evidence: &Evidence<'_>) -> impl Iterator<Item = Problem> {
    let mut silent = BTreeMap::<_, Vec<_>>::new();
    for lock in evidence.locks {
        for holder in lock.holders.iter().filter(|it| it.silent.is_some()) {
            let of = silent.entry(holder.who.full()).or_default();
            of.push((lock, holder));
        }
    }
    silent.into_iter().map(|(who, held)| {
        let keys: Vec<_> = held.iter().map(|(lock, _)| &*lock.key).collect();
        let more = match keys.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let keys = keys[..keys.len().min(NAMED)].join(", ");
        let longest = held.iter().filter_map(|(_, holder)| holder.silent).max();
        let lease = match &held[..] {
            [(_, sole)] => format!(" Its lease: {}.", sole.lease()),
            _ => String::new(),
        };
        Problem {
            is_bad: false,
            word: "Silent",
            title: format!("No word from {who}"),
            details: format!(
                "It holds {keys}{more}, and is stopped or cut off, or has ended.{lease}"
            ),
            since: longest.and_then(|it| evidence.at.checked_sub(it)),
            lock: Some((held[0].0.key.clone(), held[0].0.query.clone())),
        }
    })
}

fn of_lock(lock: &Lock, at: SystemTime) -> impl Iterator<Item = Problem> {
    let problem = |word, title: String, details: String, since| Problem {
        is_bad: false,
        word,
        title,
        details,
        since,
        lock: Some((lock.key.clone(), lock.query.clone())),
    };
    let holder = lock.holders.first();
    let holding = match holder {
        Some(holder) => {
            let silent = holder.silent.map_or("", |_| ", which is silent");
            format!("{} by {}{silent}.", holder.verb(), holder.who.full())
        }
        None => "Not held yet.".to_owned(),
    };
    let first = lock.waiters.iter().filter_map(|it| it.since).min();
    let long = first.filter(|since| age(*since, at) > LONG_WAIT);
    let line = long.map(|since| {
        let processes = count(lock.waiting, "process");
        let verb = if lock.waiting == 1 { "waits" } else { "wait" };
        let title = format!("{processes} {verb} for {}", lock.key);
        problem("Waits", title, holding, Some(since))
    });
    let rivals = (!lock.rivals.is_empty()).then(|| {
        let title = format!("Two may hold {}", lock.key);
        let holders = lock.holders.iter().chain(&lock.rivals);
        let holders: Vec<_> = holders.map(|it| it.who.full()).collect();
        let details = format!(
            "{} report to hold it. The server has lost a hold: make sure that one of them stops.",
            holders.join(" and ")
        );
        let problem = problem("Twice", title, details, None);
        Problem {
            is_bad: true,
            ..problem
        }
    });
    let endless = lock.holders.iter().any(|it| it.never_ends());
    let endless = endless.then(|| {
        let title = format!("{} never ends", lock.key);
        let details = "Another client has written the key without an expiry: delete it by hand.";
        problem("Endless", title, details.to_owned(), None)
    });
    [rivals, line, endless].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Claim, Who};
    use lock_runtime::LeaseInfo;

    fn claim(at: SystemTime, ago: u64) -> Claim {
        Claim {
            who: Who {
                name: "orders".to_owned(),
                place: String::new(),
                id: None,
            },
            token: String::new(),
            mode: "exclusive".to_owned(),
            since: at.checked_sub(Duration::from_secs(ago)),
            is_kept: false,
            is_at_most: false,
            template: None,
            place: None,
            label: None,
            lease: None,
            votes: None,
            callers: 1,
            handoffs: None,
            silent: None,
            is_revoked: false,
        }
    }

    #[test]
    fn silent_process_is_named_once() {
        let at = SystemTime::now();
        let mut lock = lock(at, &[30]);
        lock.holders[0].silent = Some(Duration::from_secs(80));
        lock.holders[0].lease = Some(LeaseInfo::WithSession);
        let silent = |locks: &[Lock]| {
            let found = problems(&Evidence {
                at,
                server: "",
                ping: &Ok(Duration::ZERO),
                servers_down: 0,
                warnings: &[],
                missing: &[],
                locks,
                events: &[],
            });
            let mut found = found.into_iter().filter(|it| it.word == "Silent");
            let silent = found.next().expect("it is silent");
            assert!(found.next().is_none());
            assert_eq!(silent.title, "No word from orders");
            silent.details
        };
        let one = silent(std::slice::from_ref(&lock));
        let said = "It holds order:42, and is stopped or cut off, or has ended. Its lease: ends with its session.";
        assert_eq!(one, said);
        let several = silent(&[0; 5].map(|_| lock.clone()));
        let said = "It holds order:42, order:42, order:42 and 2 more, and is stopped or cut off, or has ended.";
        assert_eq!(several, said);
        let waits: Vec<_> = of_lock(&lock, at).collect();
        assert_eq!(waits[0].details, "Held by orders, which is silent.");
    }

    #[test]
    fn two_holders_are_wrong() {
        let at = SystemTime::now();
        let mut lock = lock(at, &[]);
        lock.rivals = vec![claim(at, 90)];
        let found: Vec<_> = of_lock(&lock, at).collect();
        let [twice] = &found[..] else {
            panic!("there is one problem")
        };
        assert!(twice.is_bad);
        assert_eq!(twice.title, "Two may hold order:42");
        assert!(
            twice
                .details
                .starts_with("orders and orders report to hold it.")
        );
    }

    /// Returns what is wrong with a lock whose waiters have waited for so long, in seconds.
    fn found(waits: &[u64]) -> Vec<String> {
        let at = SystemTime::now();
        let lock = lock(at, waits);
        of_lock(&lock, at).map(|it| it.title).collect()
    }

    fn lock(at: SystemTime, waits: &[u64]) -> Lock {
        Lock {
            id: String::new(),
            key: "order:42".to_owned(),
            query: String::new(),
            holders: vec![claim(at, 60)],
            rivals: Vec::new(),
            waiters: waits.iter().map(|ago| claim(at, *ago)).collect(),
            waiting: waits.len() as u64,
        }
    }

    #[test]
    fn wait_is_long_whoever_is_first_in_line() {
        assert_eq!(found(&[]), [""; 0]);
        assert_eq!(found(&[9, 1]), [""; 0]);
        let waits = ["3 processes wait for order:42"];
        assert_eq!(found(&[26, 25, 24]), waits);
        assert_eq!(found(&[1, 26, 2]), waits);
    }
}
