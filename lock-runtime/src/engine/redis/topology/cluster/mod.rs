//! A Redis Cluster: each request goes to the node that owns its slot.
//!
//! A request is sent again only if a node replied that it did not carry it out, or if it could not be sent at
//! all. Otherwise the caller has to find out whether it was carried out.

pub(crate) mod nodes;
pub(crate) mod redirect;
pub(crate) mod seeds;
pub(crate) mod slot_map;

use crate::engine::background_release::BackgroundRelease;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::{EngineEvent, EventHandler};
use crate::engine::redis::conn::connect::Connector;
use crate::engine::redis::conn::request::{Envelope, Reply, Via};
use crate::engine::redis::topology::cluster::nodes::{Node, Nodes, TopologyChange};
use crate::engine::redis::topology::cluster::redirect::Redirect;
use crate::engine::redis::topology::cluster::seeds::SeedNodes;
use crate::engine::redis::wire::error::is_server_error;
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{IoThread, kept};
use crate::util::time::{deadline_in, elapsed_since, now};
use redis::ServerErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// The greatest number of redirects of one request; two are usual while a slot moves.
const MAX_REDIRECTS: usize = 8;

/// How often the slot map is refreshed without a request to do so.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest and the longest pause between requested refreshes.
const REFRESH_BACKOFF: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// A reply that took this long may come from a master that was frozen, and has been replaced meanwhile.
const STALE_REPLY_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Cluster {
    io: IoThread,
    nodes: Arc<Nodes>,
    /// `true` if the last refresh succeeded.
    refreshes: watch::Receiver<bool>,
    refresher: JoinHandle<()>,
}

impl Cluster {
    /// Requests the slot map from all nodes in the URL, and applies the first reply. `handler` is notified
    /// when another node has replaced a node, since it may not know all waiters.
    pub(crate) async fn connect(
        seeds: Arc<SeedNodes>,
        connector: Connector,
        handler: EventHandler,
    ) -> Result<Cluster, EngineError> {
        let io = connector.io;
        let nodes = Arc::new(Nodes::new(seeds, connector));
        let (sender, mut replies) = mpsc::unbounded_channel();
        for address in nodes.seeds.addresses() {
            let (nodes, sender) = (nodes.clone(), sender.clone());
            io.spawn(async move { sender.send(nodes.fetch_slot_map_from(&address).await) });
        }
        drop(sender);
        let mut trouble =
            EngineError::new(EngineErrorKind::NotConnected, "the I/O thread has ended");
        let map = loop {
            match replies.recv().await {
                Some(Ok(map)) => break map,
                Some(Err(error)) if trouble.kind != EngineErrorKind::Rejected => trouble = error,
                Some(Err(_)) => {}
                None => return Err(trouble),
            }
        };
        nodes.apply(map);
        let (refreshed, refreshes) = watch::channel(true);
        let (refreshing, refreshed) = (nodes.clone(), Arc::new(refreshed));
        let watch = move || refresh_loop(refreshing.clone(), refreshed.clone(), handler.clone());
        Ok(Cluster {
            io,
            refresher: io.spawn(kept(watch)),
            nodes,
            refreshes,
        })
    }

    /// Sends a request to the owner of its slot, and waits for its reply until the deadline.
    pub(crate) async fn send<'a>(
        &self,
        slot: u16,
        envelope: &Envelope<'a>,
    ) -> Result<Reply<'a>, EngineError> {
        let (mut envelope, deadline) = (*envelope, envelope.deadline);
        if envelope.delivery.via == Via::Patient {
            // Another node may own the slot by the time that this one is back.
            envelope.delivery.via = Via::IoThread;
        }
        let mut asked = None;
        for _ in 0..=MAX_REDIRECTS {
            envelope.delivery.asking = asked.is_some();
            let node = match asked.take() {
                Some(node) => node,
                None => self.owner(slot, deadline).await?,
            };
            let sent = now();
            let error = match node.server.send(&envelope).await {
                Ok(reply) if envelope.delivery.asking => return Ok(reply),
                Ok(reply) => {
                    let current = self.topology_is_fresh(sent, deadline).await;
                    return match current && self.is_owner(&node, slot) {
                        true => Ok(reply),
                        false => Err(superseded()),
                    };
                }
                Err(error) => error,
            };
            match Redirect::parse(&error, &node.host) {
                Some(redirect) => asked = redirect.follow(&self.nodes, slot)?,
                None if error.kind == EngineErrorKind::NotConnected => {
                    self.refresh(deadline).await;
                    if self.is_owner(&node, slot) {
                        return Err(error);
                    }
                }
                None => return Err(self.note_error(error)),
            }
        }
        let words = "the nodes of the cluster disagree on the owner of the slot";
        Err(EngineError::new(EngineErrorKind::NotReady, words))
    }

    /// Sends a release that no caller awaits to the owner of its slot. Returns it if there is no connection.
    pub(crate) fn release_in_background(
        &self,
        slot: u16,
        release: BackgroundRelease,
    ) -> Result<(), BackgroundRelease> {
        match self.nodes.owner(slot) {
            Some(node) => node.server.release_in_background(release),
            None => Err(release),
        }
    }

    /// Requests a refresh if the error indicates that the slot map is outdated.
    fn note_error(&self, error: EngineError) -> EngineError {
        if error.kind == EngineErrorKind::Indeterminate || is_cluster_down(&error) {
            self.nodes.seeds.request_refresh();
        }
        error
    }

    /// Returns a number that identifies the owner of the slot; 0 if it has none.
    pub(crate) fn server_id(&self, slot: u16) -> usize {
        let owner = self.nodes.owner(slot);
        owner.map_or(0, |node| Arc::as_ptr(&node).addr())
    }

    pub(crate) fn node(&self, slot: u16) -> Option<Arc<str>> {
        self.nodes.owner(slot).map(|node| node.address.clone())
    }

    pub(crate) fn a_slot_of_each_master(&self) -> Vec<u16> {
        self.nodes.a_slot_of_each_owner()
    }

    async fn owner(&self, slot: u16, deadline: Instant) -> Result<Arc<Node>, EngineError> {
        if let Some(node) = self.nodes.owner(slot) {
            return Ok(node);
        }
        self.refresh(deadline).await;
        self.nodes.owner(slot).ok_or_else(|| {
            let words = "no node of the cluster serves the slot";
            EngineError::new(EngineErrorKind::NotReady, words)
        })
    }

    fn is_owner(&self, node: &Arc<Node>, slot: u16) -> bool {
        let owner = self.nodes.owner(slot);
        owner.is_some_and(|owner| Arc::ptr_eq(&owner, node))
    }

    /// Returns `true` if the slot map is recent enough to trust the reply to a request sent at `sent`.
    async fn topology_is_fresh(&self, sent: Instant, deadline: Instant) -> bool {
        elapsed_since(sent) < STALE_REPLY_AFTER || self.refresh(deadline).await
    }

    /// Refreshes the slot map; returns `false` if no node replied.
    async fn refresh(&self, deadline: Instant) -> bool {
        let mut refreshes = self.refreshes.clone();
        refreshes.mark_unchanged();
        self.nodes.seeds.request_refresh();
        let refreshed = self.io.timeout_at(deadline, refreshes.changed()).await;
        refreshed.is_ok() && *refreshes.borrow()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.refresher.abort();
    }
}

/// Refreshes the slot map on request, and from time to time.
async fn refresh_loop(
    nodes: Arc<Nodes>,
    refreshed: Arc<watch::Sender<bool>>,
    handler: EventHandler,
) {
    let backoff = || Backoff::new(REFRESH_BACKOFF[0], REFRESH_BACKOFF[1]);
    let mut pauses = backoff();
    let mut last = now();
    loop {
        let _ = timeout_at(
            deadline_in(REFRESH_INTERVAL),
            nodes.seeds.refresh_requested(),
        )
        .await;
        let change = nodes.refresh().await;
        if change.is_some_and(|change| change != TopologyChange::None)
            || elapsed_since(last) > Duration::from_secs(2)
        {
            pauses = backoff();
        }
        last = now();
        refreshed.send_replace(change.is_some());
        if change == Some(TopologyChange::NodeReplaced) {
            trace::node_replaced(&*nodes.seeds);
            handler(EngineEvent::Resubscribed);
        }
        tokio::time::sleep(pauses.pause()).await;
    }
}

/// Returns the error for a reply of a former master, which does not know the locks that the new one grants.
fn superseded() -> EngineError {
    let words = "another node serves the slot now";
    EngineError::new(EngineErrorKind::Indeterminate, words)
}

/// Returns `true` if a node reports that the cluster, or its part of it, is down.
fn is_cluster_down(error: &EngineError) -> bool {
    is_server_error(error, ServerErrorKind::ClusterDown)
}
