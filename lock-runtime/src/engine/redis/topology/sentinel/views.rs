//! The Sentinels' views of the master, and which of them is followed.
//!
//! What most Sentinels name wins: one whose epoch is too great, or that is cut off from the others and names
//! a former master, leads no client anywhere. A failover begins with one Sentinel alone, though. Its view is
//! followed as soon as the present master is in doubt: it can't be connected to, denies to be the master, or
//! half of the Sentinels say that it is down.
//!
//! No view of an earlier epoch leads back before every Sentinel had the time to learn of the failover, and
//! then only that of most: whoever died first may have said last what was true before it.

use crate::engine::error::EngineError;
use crate::engine::redis::address::Address;
use crate::engine::url::NodeAddress;
use crate::util::time::elapsed_since;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// After how many polls without a reply the view of a Sentinel counts no more.
const SILENT_POLLS: u32 = 3;

/// For how long a failed connection puts the master in doubt, and within which time all Sentinels know of a
/// failover: they inform each other every 2 s.
const DOUBT: Duration = Duration::from_secs(5);

/// The views of all Sentinels.
pub(crate) struct Views {
    /// `None` if a Sentinel has not replied yet.
    pub(crate) by_sentinel: Vec<Option<Result<MasterView, EngineError>>>,
    /// How many polls have failed in a row.
    pub(crate) failures: Vec<u32>,
    /// The master that is followed.
    pub(crate) master: Option<Master>,
}

/// The last reply of a Sentinel, valid until it replies differently, or is silent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MasterView {
    pub(crate) epoch: u64,
    pub(crate) master: NodeAddress,
    /// The Sentinel says that the master is down.
    pub(crate) is_down: bool,
    /// How long the master must be silent before it counts as down.
    pub(crate) down_after: Option<Duration>,
}

pub(crate) struct Master {
    pub(crate) address: Arc<Address>,
    pub(crate) node: NodeAddress,
    pub(crate) epoch: u64,
    /// When it was followed first.
    pub(crate) since: Instant,
    /// When the last connection to it has failed.
    pub(crate) failed_at: Option<Instant>,
}

impl Views {
    pub(crate) fn of(sentinels: usize) -> Views {
        Views {
            by_sentinel: vec![None; sentinels],
            failures: vec![0; sentinels],
            master: None,
        }
    }

    /// Records what a Sentinel has replied.
    pub(crate) fn record(&mut self, index: usize, view: Result<MasterView, EngineError>) {
        let (known, failures) = (&mut self.by_sentinel[index], &mut self.failures[index]);
        *failures = match view {
            Ok(_) => 0,
            Err(_) => failures.saturating_add(1),
        };
        if view.is_ok() || *failures >= SILENT_POLLS || !matches!(known, Some(Ok(_))) {
            *known = Some(view);
        }
    }

    /// Returns `true` if every Sentinel failed to name the master.
    pub(crate) fn all_failed(&self) -> bool {
        self.by_sentinel
            .iter()
            .all(|view| matches!(view, Some(Err(_))))
    }

    /// Returns what the Sentinels name that have not failed.
    pub(crate) fn named(&self) -> impl Iterator<Item = &MasterView> {
        self.by_sentinel.iter().flatten().flatten()
    }

    /// Returns the view to follow, if its master differs from the one that is followed. `waited`: Sentinels
    /// that have not replied yet are waited for no longer.
    pub(crate) fn next(&self, waited: bool) -> Option<&MasterView> {
        let newest = self.named().max_by_key(|view| view.epoch)?;
        let Some(master) = &self.master else {
            let is_complete = self.by_sentinel.iter().all(Option::is_some);
            let has_failed = |view: &&Option<_>| matches!(view, Some(Err(_)));
            let alive = self.by_sentinel.iter().filter(|it| !has_failed(it)).count();
            return self
                .majority(alive)
                .or((waited || is_complete).then_some(newest));
        };
        let majority = self.majority(self.by_sentinel.len());
        let is_newer = |view: &&MasterView| view.epoch >= master.epoch;
        let beginner = Some(newest).filter(|view| self.is_in_doubt(master) && is_newer(view));
        let most = majority.filter(|view| is_newer(view) || elapsed_since(master.since) >= DOUBT);
        let is_other = |view: &&MasterView| view.master != master.node;
        [beginner, most].into_iter().flatten().find(is_other)
    }

    /// Returns the newest view of the master that more than half of `voters` name.
    fn majority(&self, voters: usize) -> Option<&MasterView> {
        let votes = |view: &MasterView| self.named().filter(|it| it.master == view.master).count();
        let views = self.named().filter(|view| votes(view) * 2 > voters);
        views.max_by_key(|view| view.epoch)
    }

    fn is_in_doubt(&self, master: &Master) -> bool {
        let failed = master.failed_at;
        let of_it = || self.named().filter(|view| view.master == master.node);
        let down = of_it().filter(|view| view.is_down).count();
        failed.is_some_and(|at| elapsed_since(at) < DOUBT)
            || (down > 0 && down * 2 >= self.named().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::engine::error::EngineErrorKind;
    use crate::util::time::now;

    fn view(epoch: u64, host: &str) -> MasterView {
        MasterView {
            epoch,
            master: (host.to_owned(), 6379),
            is_down: false,
            down_after: None,
        }
    }

    fn failed() -> Result<MasterView, EngineError> {
        let kind = EngineErrorKind::NotConnected;
        Err(EngineError::new(kind, "it is away"))
    }

    /// Returns the views of three Sentinels; an empty host is one that has not replied. They follow the
    /// master.
    fn views(named: [(u64, &str); 3], master: Option<(u64, &str)>) -> Views {
        let mut views = Views::of(3);
        for (index, (epoch, host)) in named.into_iter().enumerate() {
            if !host.is_empty() {
                views.record(index, Ok(view(epoch, host)));
            }
        }
        let address = Address::parse("redis://host", &Config::new("")).unwrap();
        views.master = master.map(|(epoch, host)| Master {
            address: Arc::new(address),
            node: (host.to_owned(), 6379),
            epoch,
            since: now(),
            failed_at: None,
        });
        views
    }

    fn next(views: &Views) -> Option<&str> {
        views.next(false).map(|view| &*view.master.0)
    }

    #[test]
    fn the_first_master_is_named_by_most() {
        let mut early = views([(9, "stale"), (0, ""), (0, "")], None);
        assert_eq!(next(&early), None);
        assert_eq!(early.next(true), Some(&view(9, "stale")));
        early.record(1, Ok(view(1, "a")));
        assert_eq!(next(&early), None);
        early.record(2, Ok(view(1, "a")));
        assert_eq!(next(&early), Some("a"));
        // Those that fail have no vote.
        let mut rest = views([(1, "a"), (0, ""), (0, "")], None);
        rest.record(1, failed());
        assert_eq!(next(&rest), None);
        rest.record(2, failed());
        assert_eq!(next(&rest), Some("a"));
        assert_eq!(next(&views([(0, ""); 3], None)), None);
    }

    #[test]
    fn one_sentinel_moves_no_client_from_a_healthy_master() {
        let mut alone = views([(1, "a"), (2, "b"), (1, "a")], Some((1, "a")));
        assert_eq!(next(&alone), None);
        alone.record(0, Ok(view(2, "b")));
        assert_eq!(next(&alone), Some("b"));
        // Two Sentinels of an earlier epoch lead no client back.
        let back = views([(1, "a"), (2, "b"), (1, "a")], Some((2, "b")));
        assert_eq!(next(&back), None);
    }

    #[test]
    fn one_sentinel_that_begins_a_failover_is_followed() {
        let mut failover = views([(1, "a"), (2, "b"), (1, "a")], Some((1, "a")));
        failover.master.as_mut().unwrap().failed_at = Some(now());
        assert_eq!(next(&failover), Some("b"));
        let mut failover = views([(1, "a"), (2, "b"), (1, "a")], Some((1, "a")));
        let is_down = true;
        let down = MasterView {
            is_down,
            ..view(1, "a")
        };
        failover.record(0, Ok(down.clone()));
        assert_eq!(next(&failover), None);
        failover.record(2, Ok(down));
        assert_eq!(next(&failover), Some("b"));
    }

    #[test]
    fn a_dead_sentinels_view_yields_to_the_others() {
        // The other two were restarted without their state.
        let mut views = views([(5, "a"), (1, "b"), (1, "b")], Some((5, "a")));
        views.master.as_mut().unwrap().failed_at = Some(now());
        assert_eq!(next(&views), None);
        views.master.as_mut().unwrap().since -= DOUBT;
        assert_eq!(next(&views), Some("b"));
        for _ in 0..SILENT_POLLS {
            assert_eq!(views.named().count(), 3);
            views.record(0, failed());
        }
        assert_eq!(views.named().count(), 2);
    }

    #[test]
    fn the_last_word_of_a_dead_sentinel_leads_no_client_back() {
        // The third died before it was polled again, and is the last whose view counts.
        let mut views = views([(2, "b"), (1, "a"), (1, "a")], Some((2, "b")));
        let master = views.master.as_mut().unwrap();
        (master.failed_at, master.since) = (Some(now()), master.since - DOUBT);
        views.record(1, Ok(view(2, "b")));
        (0..SILENT_POLLS).for_each(|_| views.record(0, failed()));
        (0..SILENT_POLLS).for_each(|_| views.record(1, failed()));
        assert_eq!(views.named().collect::<Vec<_>>(), [&view(1, "a")]);
        assert_eq!(next(&views), None);
    }

    #[test]
    fn an_epoch_that_is_too_great_is_followed_for_a_moment_at_most() {
        let mut rogue = views([(1, "a"), (9, "x"), (1, "a")], Some((9, "x")));
        assert_eq!(next(&rogue), None);
        rogue.master.as_mut().unwrap().since -= DOUBT;
        assert_eq!(next(&rogue), Some("a"));
    }

    #[test]
    fn a_sentinel_that_was_not_polled_has_not_failed() {
        let mut views = Views::of(2);
        views.record(0, failed());
        assert!(!views.all_failed());
        views.record(1, failed());
        assert!(views.all_failed());
    }
}
