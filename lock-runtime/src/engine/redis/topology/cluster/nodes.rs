//! The nodes of a cluster that this process is connected to.

use crate::engine::common::pace::FirstTry;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::server::Server;
use crate::engine::redis::hash_slot::SLOT_COUNT;
use crate::engine::redis::topology::cluster::seeds::SeedNodes;
use crate::engine::redis::topology::cluster::slot_map::SlotMap;
use crate::engine::url::NodeAddress;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, elapsed_since, now};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// How long a node that no longer owns a slot is remembered. Requests already sent to it may still arrive,
/// and its next connection must know the previous one to kill it.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// How long a refresh waits for one node before it also queries the next.
const HEDGE_DELAY: Duration = Duration::from_millis(100);

pub(crate) struct Nodes {
    pub(crate) seeds: Arc<SeedNodes>,
    /// How to connect to each node, without its address.
    connector: Connector,
    /// The nodes that were used lately, and the time of their last use.
    known: Mutex<HashMap<NodeAddress, (Arc<Node>, Instant)>>,
    owners: RwLock<Vec<Option<Arc<Node>>>>,
    next_node: AtomicUsize,
}

pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) address: Arc<str>,
    pub(crate) server: Server,
}

/// How a slot map differs from the previous one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TopologyChange {
    None,
    /// Slots have other owners.
    SlotsMoved,
    /// A node no longer owns any slot.
    NodeReplaced,
}

type SlotOwners = [Option<Arc<Node>>];

impl TopologyChange {
    fn between(then: &SlotOwners, now: &SlotOwners) -> TopologyChange {
        let nodes = |owners: &SlotOwners| -> Vec<Option<usize>> {
            let address = |node: &Arc<Node>| Arc::as_ptr(node).addr();
            owners
                .iter()
                .map(|node| node.as_ref().map(address))
                .collect()
        };
        let (then, now) = (nodes(then), nodes(now));
        if then == now {
            return TopologyChange::None;
        }
        let still: HashSet<&usize> = now.iter().flatten().collect();
        match then.iter().flatten().all(|node| still.contains(node)) {
            true => TopologyChange::SlotsMoved,
            false => TopologyChange::NodeReplaced,
        }
    }
}

impl Nodes {
    pub(crate) fn new(seeds: Arc<SeedNodes>, connector: Connector) -> Nodes {
        Nodes {
            seeds,
            connector,
            known: Mutex::default(),
            owners: RwLock::new(vec![None; usize::from(SLOT_COUNT)]),
            next_node: AtomicUsize::new(0),
        }
    }

    /// Returns the owner of a slot, if it is known.
    pub(crate) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners.get(usize::from(slot))?.clone()
    }

    /// Returns a slot of each owner, and one whose owner is not known, if there is such a slot.
    pub(crate) fn a_slot_of_each_owner(&self) -> Vec<u16> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashSet::new();
        let mut is_new = |owner: &Option<Arc<Node>>| seen.insert(owner.as_ref().map(Arc::as_ptr));
        let slots = (0..).zip(owners.iter());
        let slots = slots.filter_map(|(slot, owner)| is_new(owner).then_some(slot));
        slots.collect()
    }

    /// Returns the node at that address.
    pub(crate) fn node(&self, address: &NodeAddress) -> Result<Arc<Node>, EngineError> {
        self.get_or_connect(address).map(|(node, _)| node)
    }

    /// Waits for the first connection to the node at that address, and fetches its slot map.
    pub(crate) async fn fetch_slot_map_from(
        &self,
        address: &NodeAddress,
    ) -> Result<SlotMap, EngineError> {
        let (node, first) = self.get_or_connect(address)?;
        if let Some(first) = first {
            first.result().await?;
        }
        self.fetch_slot_map(&node).await.map_err(|error| {
            if error.to_string().contains("cluster support disabled") {
                let words = "the server is not part of a cluster; use `redis://`";
                return EngineError::new(EngineErrorKind::Rejected, words);
            }
            error
        })
    }

    /// Returns the node at that address, and the result of connecting to it if this call has started that.
    fn get_or_connect(
        &self,
        address: &NodeAddress,
    ) -> Result<(Arc<Node>, Option<FirstTry>), EngineError> {
        let mut known = self.lock_known();
        if let Some((node, last_used)) = known.get_mut(address) {
            *last_used = now();
            return Ok((node.clone(), None));
        }
        let server = self.seeds.address_of(address);
        let displayed = server.to_string().into();
        let connector = Connector {
            discovery: Arc::new(server),
            ..self.connector.clone()
        };
        let (server, first) = Server::connect_lazily(&connector);
        let node = Arc::new(Node {
            host: address.0.clone(),
            address: displayed,
            server,
        });
        known.insert(address.clone(), (node.clone(), now()));
        Ok((node, Some(first)))
    }

    /// Records that a node owns a slot from now on.
    pub(crate) fn set_owner(&self, slot: u16, node: Arc<Node>) {
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(usize::from(slot)) {
            *owner = Some(node);
        }
    }

    /// Replaces the slot map, and returns how the new one differs.
    pub(crate) fn apply(&self, map: SlotMap) -> TopologyChange {
        let mut now = vec![None; usize::from(SLOT_COUNT)];
        for (range, address) in &map.ranges {
            if let Ok(node) = self.node(address) {
                for slot in range.clone() {
                    now[usize::from(slot)] = Some(node.clone());
                }
            }
        }
        self.seeds.update(map.nodes);
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        let change = TopologyChange::between(&owners, &now);
        let then = std::mem::replace(&mut *owners, now);
        drop(owners);
        self.lock_known()
            .retain(|_, (_, last_used)| elapsed_since(*last_used) < FORGET_AFTER);
        // Drop outside the lock: the last reference to a node closes its connections.
        drop(then);
        change
    }

    /// Queries one node after the other for its slot map, and applies the first. Returns how it differs, or
    /// `None` if no node replied.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Option<TopologyChange> {
        let mut up: Vec<Arc<Node>> = {
            let known = self.lock_known();
            let nodes = known.values().map(|(node, _)| node);
            nodes
                .filter(|node| node.server.is_connected())
                .cloned()
                .collect()
        };
        // Start with another node each time: one node may be cut off from the others.
        let next_node = self.next_node.fetch_add(1, Ordering::Relaxed) % up.len().max(1);
        up.rotate_left(next_node);
        let others = self.seeds.addresses();
        let others = others.iter().filter_map(|address| self.node(address).ok());
        let mut replies = JoinSet::new();
        for node in up.into_iter().chain(others) {
            let nodes = self.clone();
            replies.spawn(async move { nodes.fetch_slot_map(&node).await });
            // A node that is slow to reply does not hold up the others.
            let reply = timeout_at(deadline_in(HEDGE_DELAY), replies.join_next()).await;
            if let Ok(Some(Ok(Ok(map)))) = reply {
                return Some(self.apply(map));
            }
        }
        while let Some(reply) = replies.join_next().await {
            if let Ok(Ok(map)) = reply {
                return Some(self.apply(map));
            }
        }
        None
    }

    /// Fetches a node's slot map.
    pub(crate) async fn fetch_slot_map(&self, node: &Node) -> Result<SlotMap, EngineError> {
        let deadline = deadline_in(self.connector.timeouts.silence());
        let slots = node.server.ask(&["CLUSTER", "SLOTS"], deadline).await?;
        SlotMap::parse(&slots, &node.host).ok_or_else(|| {
            let words = "the node reports no owner of any slot";
            EngineError::new(EngineErrorKind::NotReady, words)
        })
    }

    fn lock_known(&self) -> MutexGuard<'_, HashMap<NodeAddress, (Arc<Node>, Instant)>> {
        self.known.lock()
    }
}
