//! The nodes of a cluster that this process speaks to.

use crate::engine::error::{EngineError, Fault};
use crate::engine::redis::cluster::seeds::Contacts;
use crate::engine::redis::cluster::slot_map::{Address, Map};
use crate::engine::redis::hash_slot::SLOTS;
use crate::engine::redis::net::connection::Dialer;
use crate::engine::redis::net::per_runtime::Homes;
use crate::engine::redis::net::reconnect::Link;
use crate::engine::redis::topology::Site;
use crate::util::io_thread::{after, instant, since};
use redis::{Cmd, Value};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// How long a node that serves nothing any more is remembered. What was sent to it may arrive as long,
/// and its next connection must know of the last.
const MEMORY: Duration = Duration::from_secs(60);

/// How soon the next node is asked for the map.
const HEDGE: Duration = Duration::from_millis(100);

pub(crate) struct Nodes {
    pub(crate) contacts: Arc<Contacts>,
    /// How each of them is spoken to; only the site is another.
    dialer: Dialer,
    /// All that were spoken to lately, and when they were found to be of use last.
    known: Mutex<HashMap<Address, (Arc<Node>, Instant)>>,
    serving: RwLock<Vec<Option<Arc<Node>>>>,
    turn: AtomicUsize,
}

pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) address: Arc<str>,
    pub(crate) link: Arc<Link>,
    pub(crate) homes: Arc<Homes>,
}

/// What a map says that the last one did not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum News {
    Nothing,
    /// Slots are served by other nodes.
    Moved,
    /// A node serves nothing any more.
    Replaced,
}

type Serving = [Option<Arc<Node>>];

impl News {
    fn between(then: &Serving, now: &Serving) -> News {
        let nodes = |serving: &Serving| -> Vec<Option<usize>> {
            let address = |node: &Arc<Node>| Arc::as_ptr(node).addr();
            serving
                .iter()
                .map(|node| node.as_ref().map(address))
                .collect()
        };
        let (then, now) = (nodes(then), nodes(now));
        if then == now {
            return News::Nothing;
        }
        let still: HashSet<&usize> = now.iter().flatten().collect();
        match then.iter().flatten().all(|node| still.contains(node)) {
            true => News::Moved,
            false => News::Replaced,
        }
    }
}

/// What came of the first try to connect.
type First = oneshot::Receiver<Result<(), EngineError>>;

impl Nodes {
    pub(crate) fn new(contacts: Arc<Contacts>, dialer: Dialer) -> Nodes {
        Nodes {
            contacts,
            dialer,
            known: Mutex::default(),
            serving: RwLock::new(vec![None; usize::from(SLOTS)]),
            turn: AtomicUsize::new(0),
        }
    }

    /// The node that serves a slot, as far as is known.
    pub(crate) fn serving(&self, slot: u16) -> Option<Arc<Node>> {
        let serving = self.serving.read().unwrap_or_else(PoisonError::into_inner);
        serving.get(usize::from(slot))?.clone()
    }

    /// The node at that address.
    pub(crate) fn at(&self, address: &Address) -> Result<Arc<Node>, EngineError> {
        self.begin_with(address).map(|(node, _)| node)
    }

    /// What the node at that address says of its cluster, or why it says nothing.
    pub(crate) async fn introduce(&self, address: &Address) -> Result<Map, EngineError> {
        let (node, first) = self.begin_with(address)?;
        if let Some(first) = first
            && let Ok(Err(error)) = first.await
        {
            return Err(error);
        }
        self.map_of(&node).await.map_err(|error| {
            if error.to_string().contains("cluster support disabled") {
                let words = "the server is not part of a cluster; use `redis://`";
                return EngineError::new(Fault::Refused, words);
            }
            error
        })
    }

    /// The node at that address, and what came of connecting to it, if that has just begun.
    fn begin_with(&self, address: &Address) -> Result<(Arc<Node>, Option<First>), EngineError> {
        let mut known = self.known();
        if let Some((node, of_use)) = known.get_mut(address) {
            *of_use = instant();
            return Ok((node.clone(), None));
        }
        let target = self.contacts.target(address);
        let target = target.map_err(|error| EngineError::new(Fault::Hindered, error))?;
        let named = target.to_string().into();
        let dialer = Dialer {
            site: Site::fixed(target),
            ..self.dialer.clone()
        };
        let (link, first) = Link::open(dialer.io, dialer.clone());
        let link = Arc::new(link);
        let node = Arc::new(Node {
            host: address.0.clone(),
            address: named,
            homes: Homes::new(&dialer, &link),
            link,
        });
        known.insert(address.clone(), (node.clone(), instant()));
        Ok((node, Some(first)))
    }

    /// A slot is served by that node from now on.
    pub(crate) fn moved(&self, slot: u16, node: Arc<Node>) {
        let mut serving = self.serving.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = serving.get_mut(usize::from(slot)) {
            *place = Some(node);
        }
    }

    /// Takes a map as the truth. Says what is new in it.
    pub(crate) fn take(&self, map: Map) -> News {
        let mut now = vec![None; usize::from(SLOTS)];
        for (range, address) in &map.ranges {
            if let Ok(node) = self.at(address) {
                for slot in range.clone() {
                    now[usize::from(slot)] = Some(node.clone());
                }
            }
        }
        self.contacts.learn(map.nodes);
        let mut serving = self.serving.write().unwrap_or_else(PoisonError::into_inner);
        let news = News::between(&serving, &now);
        let then = std::mem::replace(&mut *serving, now);
        drop(serving);
        self.known()
            .retain(|_, (_, of_use)| since(*of_use) < MEMORY);
        // The last one to know a node closes its link.
        drop(then);
        news
    }

    /// Asks one node after the other, until one tells the map. Says what is new in it, or nothing if
    /// nobody tells.
    pub(crate) async fn look(self: &Arc<Self>) -> Option<News> {
        let mut up: Vec<Arc<Node>> = {
            let known = self.known();
            let nodes = known.values().map(|(node, _)| node);
            nodes.filter(|node| node.link.is_up()).cloned().collect()
        };
        // Another one each time: the one may be cut off from the others.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % up.len().max(1);
        up.rotate_left(turn);
        let others = self.contacts.all();
        let others = others.iter().filter_map(|address| self.at(address).ok());
        let mut answers = JoinSet::new();
        for node in up.into_iter().chain(others) {
            let nodes = self.clone();
            answers.spawn(async move { nodes.map_of(&node).await });
            // Who is slow to answer, or doesn't, is not waited for.
            let answer = timeout_at(after(HEDGE), answers.join_next()).await;
            if let Ok(Some(Ok(Ok(map)))) = answer {
                return Some(self.take(map));
            }
        }
        while let Some(answer) = answers.join_next().await {
            if let Ok(Ok(map)) = answer {
                return Some(self.take(map));
            }
        }
        None
    }

    /// What a node says of its cluster.
    pub(crate) async fn map_of(&self, node: &Node) -> Result<Map, EngineError> {
        let mut command = Cmd::new();
        command.arg("CLUSTER").arg("SLOTS");
        let until = after(self.dialer.timeouts.command);
        let answer: Value = node.link.ask(command, until).await?;
        Map::read(&answer, &node.host).ok_or_else(|| {
            let words = "the node knows of no other that serves any slots";
            EngineError::new(Fault::Hindered, words)
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Address, (Arc<Node>, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
