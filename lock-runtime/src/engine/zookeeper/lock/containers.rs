//! The nodes above those of claims and sessions.

use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::keys::lineage;
use crate::engine::zookeeper::wire::error::Failure;
use crate::engine::zookeeper::wire::request::{NodeKind, Request};
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::now;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::Instant;

/// Containers are remembered for one to two of these. Servers look for empty ones once a minute, unless that
/// is configured: after 30 s one is as likely there as not.
const PERIOD: Duration = Duration::from_secs(20);

/// The greatest number of containers of one period.
const MAX_SEEN: usize = 10_000;

/// The containers that were seen lately. Some may be gone: that costs a request that fails.
#[derive(Default)]
pub(crate) struct Containers {
    hasher: RandomState,
    seen: Mutex<Seen>,
}

/// The hashes of the containers of this period and of the one before.
#[derive(Default)]
struct Seen {
    now: HashSet<u64>,
    before: HashSet<u64>,
    since: Option<Instant>,
}

impl Containers {
    /// Records whether a container exists.
    pub(crate) fn saw(&self, path: &str, exists: bool) {
        let hash = self.hasher.hash_one(path);
        let mut seen = self.seen();
        if exists {
            seen.now.insert(hash);
        } else {
            seen.now.remove(&hash);
            seen.before.remove(&hash);
        }
    }

    /// Returns `true` if the container was seen lately.
    pub(crate) fn remembers(&self, path: &str) -> bool {
        let hash = self.hasher.hash_one(path);
        let seen = self.seen();
        seen.now.contains(&hash) || seen.before.contains(&hash)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock();
        seen.turn(now());
        seen
    }
}

impl Seen {
    /// Begins a new period if it is time.
    fn turn(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(*self.since.get_or_insert(now));
        if passed < PERIOD && self.now.len() < MAX_SEEN {
            return;
        }
        self.before = std::mem::take(&mut self.now);
        if passed >= PERIOD * 2 {
            self.before.clear();
        }
        self.since = Some(now);
    }
}

/// Creates a container and those above it.
pub(crate) async fn create_containers(
    session: &Session,
    path: &str,
    deadline: Instant,
) -> Result<(), Failure> {
    let lineage: Vec<&str> = lineage(path).collect();
    // From the bottom: mostly only the last one is missing.
    let mut at = lineage.len().saturating_sub(1);
    while let Some(path) = lineage.get(at) {
        let create = Request::create((*path).to_owned(), NodeKind::Container);
        match session.request(create, deadline).await {
            Ok(_) | Err(Failure::Exists) => at += 1,
            Err(Failure::NoNode) if at > 0 => at -= 1,
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_remembered_for_a_while() {
        let (mut seen, start) = (Seen::default(), now());
        let mut sees = |hash, after| {
            seen.turn(start + after);
            let knew = seen.now.contains(&hash) || seen.before.contains(&hash);
            seen.now.insert(hash);
            knew
        };
        assert!(!sees(1, Duration::ZERO));
        assert!(sees(1, PERIOD / 2));
        // In the next period, and in the one after that.
        assert!(!sees(2, PERIOD));
        assert!(sees(2, PERIOD * 2) && !sees(1, PERIOD * 2));
        assert!(!sees(2, PERIOD * 4), "nothing was seen for two periods");
    }

    #[test]
    fn memory_is_bounded() {
        let containers = Containers::default();
        for number in 0..MAX_SEEN * 3 {
            containers.saw(&number.to_string(), true);
        }
        let seen = containers.seen();
        assert!(seen.now.len() + seen.before.len() <= MAX_SEEN * 2);
    }
}
