//! Notices failovers that no fault was meant to cause: on a busy machine, servers take one another for dead,
//! and replace a master that still serves clients.

use std::iter::zip;
use std::mem::replace;

use crate::clock;
use crate::deployment::Deployment;
use crate::fault::{Fault, FaultTarget, Keys, Kind};

pub struct Failovers {
    /// The server of each lock, and the last time at which that was certain.
    serving: Vec<Option<usize>>,
    since: u64,
    /// `true` if a fault has moved locks to another server since.
    are_planned: bool,
}

impl Failovers {
    pub fn new(deployment: &dyn Deployment) -> Self {
        Self {
            serving: serving(deployment),
            since: clock::now(),
            are_planned: false,
        }
    }

    /// Takes note of a fault that begins, or of one that still lasts.
    pub fn expect(&mut self, fault: &Fault) {
        let forgets = fault.forgotten == Some(Keys::All) || fault.kind == Kind::ServerForgot;
        self.are_planned |= forgets || fault.kind.target() == FaultTarget::Topology;
    }

    /// Returns a fault if another server serves a lock now than before, and no fault was meant to cause that.
    pub fn unplanned(&mut self, deployment: &dyn Deployment) -> Option<Fault> {
        let limits = deployment.limits();
        // A replica that must acknowledge every lock may replace its master at any time.
        (limits.changes && limits.replicas == 0)
            .then(|| self.changed(serving(deployment), clock::now()))?
    }

    fn changed(&mut self, serving: Vec<Option<usize>>, now: u64) -> Option<Fault> {
        if serving.iter().any(Option::is_none) {
            return None;
        }
        let (from, before) = (replace(&mut self.since, now), &self.serving);
        let moved = zip(before, &serving).any(|(before, now)| before.is_some() && before != now);
        self.serving = serving;
        let were_planned = replace(&mut self.are_planned, false);
        (moved && !were_planned).then(|| Fault {
            kind: Kind::Failover,
            target: "of itself".to_owned(),
            from,
            until: now,
            workers: Vec::new(),
            forgotten: Some(Keys::All),
            away: true,
            vain: false,
        })
    }
}

/// Returns the server that serves each lock.
fn serving(deployment: &dyn Deployment) -> Vec<Option<usize>> {
    let keys = 0..deployment.limits().keys;
    keys.map(|key| deployment.serving(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failovers() -> Failovers {
        Failovers {
            serving: vec![Some(0), Some(1)],
            since: 10,
            are_planned: false,
        }
    }

    fn fault(kind: Kind) -> Fault {
        Fault {
            kind,
            target: String::new(),
            from: 0,
            until: 0,
            workers: Vec::new(),
            forgotten: None,
            away: true,
            vain: false,
        }
    }

    #[test]
    fn failover_of_itself_may_lose_locks_since_the_former_server_was_last_seen() {
        let mut failovers = failovers();
        failovers.expect(&fault(Kind::ServerKilled));
        assert!(failovers.changed(vec![Some(0), Some(1)], 20).is_none());
        assert!(failovers.changed(vec![None, Some(1)], 30).is_none());
        let found = failovers.changed(vec![Some(2), Some(1)], 40).unwrap();
        assert_eq!((found.from, found.until), (20, 40));
        assert_eq!(found.forgotten, Some(Keys::All));
        assert!(failovers.changed(vec![Some(2), Some(1)], 50).is_none());
    }

    #[test]
    fn planned_change_of_servers_loses_no_lock() {
        for kind in [Kind::ServerForgot, Kind::Failover, Kind::SlotMoved] {
            let mut failovers = failovers();
            failovers.expect(&fault(kind));
            assert!(failovers.changed(vec![None, Some(1)], 20).is_none());
            assert!(failovers.changed(vec![Some(2), Some(1)], 30).is_none());
            assert!(failovers.changed(vec![Some(1), Some(1)], 40).is_some());
        }
    }
}
