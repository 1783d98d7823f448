//! A cluster of three masters with a replica each.

use crate::fault::{FaultTarget, Kind};
use lock_test_support::cluster::Cluster;
use lock_test_support::proxy::Proxy;
use lock_test_support::rng::Rng;
use lock_test_support::servers::Servers;

use super::failover::Failover;
use super::{Deployment, KEYS, Limits, Move, durable, name};

pub struct InCluster {
    cluster: Cluster,
    failover: Failover,
    limits: Limits,
    /// The slot of each lock.
    slots: Vec<u16>,
    /// The slots of a node that was killed.
    orphaned: Vec<u16>,
}

impl InCluster {
    pub fn start(rng: &mut Rng) -> Self {
        let failover = Failover::by(rng);
        let mut plan = Cluster::plan().node_timeout(failover.silence()).network();
        for option in durable().chunks(2) {
            plan = plan.option(option[0].trim_start_matches("--"), &option[1]);
        }
        let cluster = plan.start();
        // Until then no replica acknowledges a lock.
        let follows = |master| cluster.node(master).until_replicated(1);
        assert!((0..3).all(follows), "the replicas follow");
        let mut limits = failover.limits(cluster.node_count(), 1);
        // The replica carries out a failover by command, and first waits until it has all data.
        limits.can.extend([Kind::Failover, Kind::SlotMoved]);
        Self {
            slots: (0..KEYS).map(|key| cluster.slot(&name(key))).collect(),
            cluster,
            failover,
            limits,
            orphaned: Vec::new(),
        }
    }

    fn masters(&self) -> Vec<usize> {
        let masters = (0..3).filter_map(|n| self.cluster.master_of(Cluster::first_slot(n)));
        masters.collect()
    }
}

impl Deployment for InCluster {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn urls(&self, _: usize) -> String {
        self.cluster.url()
    }

    fn servers(&self) -> &dyn Servers {
        &self.cluster
    }

    fn servers_mut(&mut self) -> &mut dyn Servers {
        &mut self.cluster
    }

    fn serving(&self, key: u32) -> Option<usize> {
        self.cluster.master_of(self.slots[key as usize])
    }

    fn proxy(&self, _: usize, server: usize) -> Option<&Proxy> {
        self.cluster.node(server).network()
    }

    fn may_begin(&self) -> bool {
        self.failover.may_begin(|| self.cluster.is_settled())
    }

    fn killed(&mut self, _: usize) {
        let is_orphaned = |slot: &&u16| self.cluster.master_of(**slot).is_none();
        self.orphaned = self.slots.iter().filter(is_orphaned).copied().collect();
    }

    /// A node that returns empty before others have taken over its slots has lost all locks in them.
    fn may_return(&self, _: usize) -> bool {
        let is_served = |slot: &u16| self.cluster.master_of(*slot).is_some();
        self.failover != Failover::Late || self.orphaned.iter().all(is_served)
    }

    /// The other nodes reach the node over a network that has no faults.
    fn forgets_by(&self, kind: Kind, server: usize) -> bool {
        let hidden = kind.target() == FaultTarget::Network || kind == Kind::ClientsPaused;
        let is_master = || {
            self.slots.iter().any(|slot| {
                self.cluster
                    .master_of(*slot)
                    .is_none_or(|master| master == server)
            })
        };
        self.failover == Failover::Early && kind.silences() && !hidden && is_master()
    }

    fn fail_over(&mut self, key: u32) -> bool {
        let master = self.serving(key);
        let replica = master.and_then(|master| self.cluster.replica_of(master));
        replica.is_some_and(|replica| {
            let failover = self
                .cluster
                .node(replica)
                .try_query::<()>("CLUSTER FAILOVER");
            failover.is_ok()
        })
    }

    /// Moves the slot to the next master.
    fn begin_move(&mut self, key: u32) -> Option<Move> {
        let from = self.serving(key)?;
        let masters = self.masters();
        let topology = masters.iter().position(|master| *master == from)?;
        let to = masters[(topology + 1) % masters.len()];
        let slot = self.slots[key as usize];
        let moves = to != from && self.cluster.try_begin_to_move(slot, from, to).is_ok();
        moves.then_some(Move { slot, from, to })
    }

    /// A slot whose former node has been replaced meanwhile stays with the replacement.
    fn end_move(&mut self, it: Move) -> bool {
        let now = self.cluster.master_of(it.slot);
        if now.is_some_and(|now| now != it.from) {
            return now == Some(it.to) || self.cluster.give_up_to_move(it.slot, it.to).is_ok();
        }
        self.cluster
            .try_end_to_move(it.slot, it.from, it.to)
            .is_ok()
    }

    fn is_settled(&self) -> bool {
        self.cluster.is_settled()
    }
}
