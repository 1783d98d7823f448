//! A Redis Cluster: each request goes to the node that serves its slot.
//!
//! A request is sent again only if a node has said that it did not carry it out, or if it could not be
//! sent at all. What became of it otherwise is the caller's to find out.

pub(crate) mod nodes;
pub(crate) mod seeds;
pub(crate) mod slot_map;

use crate::engine::error::{EngineError, Fault};
use crate::engine::event;
use crate::engine::event::Ear;
use crate::engine::redis::cluster::nodes::{News, Node, Nodes};
use crate::engine::redis::cluster::seeds::Contacts;
use crate::engine::redis::cluster::slot_map::Redirection;
use crate::engine::redis::net::batch::Request;
use crate::engine::redis::net::connection::Dialer;
use crate::engine::redis::net::per_runtime::{Home, Homes};
use crate::trace;
use crate::util::backoff::Backoff;
use crate::util::io_thread::{Io, after, instant, kept, since};
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// So often a request is sent from node to node; while a slot moves, twice is usual.
const REDIRECTIONS: usize = 8;

/// How often the map is looked at while nobody doubts it.
const PERIOD: Duration = Duration::from_secs(10);

/// How soon, and then how often, it is looked at while somebody does.
const DOUBTED: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];

/// An answer that took so long may come from a master that was frozen, and has been replaced meanwhile.
const SLOW: Duration = Duration::from_secs(1);

pub(crate) struct Cluster {
    io: Io,
    nodes: Arc<Nodes>,
    /// Whether the last look at the map showed one.
    looks: watch::Receiver<bool>,
    watcher: JoinHandle<()>,
}

impl Cluster {
    /// Asks all nodes that are known from the first, and takes the first map that one tells. `ear`
    /// is told when a node has been replaced by another, which may not know all that it did.
    pub(crate) async fn connect(
        contacts: Arc<Contacts>,
        dialer: Dialer,
        ear: Ear,
    ) -> Result<Cluster, EngineError> {
        let io = dialer.io;
        let nodes = Arc::new(Nodes::new(contacts, dialer));
        let (told, mut answers) = mpsc::unbounded_channel();
        for address in nodes.contacts.all() {
            let (nodes, told) = (nodes.clone(), told.clone());
            io.spawn(async move { told.send(nodes.introduce(&address).await) });
        }
        drop(told);
        let mut trouble = EngineError::new(Fault::Down, "the I/O thread has ended");
        let map = loop {
            match answers.recv().await {
                Some(Ok(map)) => break map,
                Some(Err(error)) if trouble.fault != Fault::Refused => trouble = error,
                Some(Err(_)) => {}
                None => return Err(trouble),
            }
        };
        nodes.take(map);
        let (looked, looks) = watch::channel(true);
        let (watched, looked) = (nodes.clone(), Arc::new(looked));
        let watch = move || watch(watched.clone(), looked.clone(), ear.clone());
        Ok(Cluster {
            io,
            watcher: io.spawn(kept(watch)),
            nodes,
            looks,
        })
    }

    /// Sends a request to where the slot of its keys is, and waits for its answer until then.
    pub(crate) async fn ask<T: FromRedisValue>(
        &self,
        slot: u16,
        request: Request,
        until: Instant,
    ) -> Result<T, EngineError> {
        let mut asked = None;
        for _ in 0..=REDIRECTIONS {
            let mut request = request.clone();
            let asking = asked.is_some();
            request.asking = asking;
            // Another node may serve the slot by the time that this one is back.
            request.patient = false;
            let node = match asked.take() {
                Some(node) => node,
                None => self.serving(slot, until).await?,
            };
            let sent = instant();
            let error = match node.link.ask(request, until).await {
                Ok(answer) if asking => return Ok(answer),
                Ok(answer) => {
                    let current = self.is_current(sent, until).await;
                    return match current && self.serves(&node, slot) {
                        true => Ok(answer),
                        false => Err(overtaken()),
                    };
                }
                Err(error) => error,
            };
            match Redirection::read(&error, &node.host) {
                Some(Redirection::Moved(address)) => {
                    self.nodes.moved(slot, self.nodes.at(&address)?);
                    self.nodes.contacts.doubt();
                }
                Some(Redirection::Ask(address)) => asked = Some(self.nodes.at(&address)?),
                None if error.fault == Fault::Down => {
                    self.look(until).await;
                    if self.serves(&node, slot) {
                        return Err(error);
                    }
                }
                None => return Err(self.heed(error)),
            }
        }
        let words = "the nodes of the cluster don't agree on who serves the slot";
        Err(EngineError::new(Fault::Hindered, words))
    }

    /// Sends a command from a home, as long as its node serves the slot, and waits for its answer until
    /// then.
    pub(crate) async fn ask_from<T: FromRedisValue>(
        &self,
        home: &Home,
        slot: u16,
        command: Cmd,
        until: Instant,
    ) -> Result<T, EngineError> {
        let sent = instant();
        match home.ask(command.clone(), until).await {
            Ok(answer) => {
                let current = self.is_current(sent, until).await;
                match current && self.is_served_beside(home, slot) {
                    true => Ok(answer),
                    false => Err(overtaken()),
                }
            }
            // It has not been carried out.
            Err(error) if error.fault == Fault::Down || Redirection::is_one(&error) => {
                self.ask(slot, command.into(), until).await
            }
            Err(error) => Err(self.heed(error)),
        }
    }

    /// Whether a home is one at the node that serves the slot.
    pub(crate) fn is_served_beside(&self, home: &Home, slot: u16) -> bool {
        let serving = self.nodes.serving(slot);
        serving.is_some_and(|node| home.is_beside(&node.link))
    }

    /// Has the map looked at, if an error says that it may not be right any more.
    fn heed(&self, error: EngineError) -> EngineError {
        if error.fault == Fault::Unanswered || is_down(&error) {
            self.nodes.contacts.doubt();
        }
        error
    }

    /// Those at the node that serves a slot.
    pub(crate) fn homes(&self, slot: u16) -> Option<Arc<Homes>> {
        self.nodes.serving(slot).map(|node| node.homes.clone())
    }

    /// Which node serves a slot, as a number of its own; 0 if none does.
    pub(crate) fn server(&self, slot: u16) -> usize {
        let serving = self.nodes.serving(slot);
        serving.map_or(0, |node| Arc::as_ptr(&node).addr())
    }

    pub(crate) fn node(&self, slot: u16) -> Option<Arc<str>> {
        self.nodes.serving(slot).map(|node| node.address.clone())
    }

    async fn serving(&self, slot: u16, until: Instant) -> Result<Arc<Node>, EngineError> {
        if let Some(node) = self.nodes.serving(slot) {
            return Ok(node);
        }
        self.look(until).await;
        self.nodes.serving(slot).ok_or_else(|| {
            let words = "no node of the cluster serves the slot";
            EngineError::new(Fault::Hindered, words)
        })
    }

    fn serves(&self, node: &Arc<Node>, slot: u16) -> bool {
        let serving = self.nodes.serving(slot);
        serving.is_some_and(|serving| Arc::ptr_eq(&serving, node))
    }

    /// Whether the map is new enough to judge an answer to what was sent then.
    async fn is_current(&self, sent: Instant, until: Instant) -> bool {
        since(sent) < SLOW || self.look(until).await
    }

    /// Has the map looked at, and waits for that; whether it was shown.
    async fn look(&self, until: Instant) -> bool {
        let mut looks = self.looks.clone();
        looks.mark_unchanged();
        self.nodes.contacts.doubt();
        let looked = self.io.timeout_at(until, looks.changed()).await;
        looked.is_ok() && *looks.borrow()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// Looks at the map whenever it is doubted, and from time to time.
async fn watch(nodes: Arc<Nodes>, looked: Arc<watch::Sender<bool>>, ear: Ear) {
    let backoff = || Backoff::new(DOUBTED[0], DOUBTED[1]);
    let mut pauses = backoff();
    let mut last = instant();
    loop {
        let _ = timeout_at(after(PERIOD), nodes.contacts.doubted()).await;
        let news = nodes.look().await;
        if news.is_some_and(|news| news != News::Nothing) || since(last) > Duration::from_secs(2) {
            pauses = backoff();
        }
        last = instant();
        looked.send_replace(news.is_some());
        if news == Some(News::Replaced) {
            trace::node_replaced(&*nodes.contacts);
            ear(event::News::Resumed);
        }
        tokio::time::sleep(pauses.pause()).await;
    }
}

/// A master of old knows nothing of the locks that the new one grants.
fn overtaken() -> EngineError {
    let words = "the slot is served by another node by now";
    EngineError::new(Fault::Unanswered, words)
}

/// Whether a node says that the cluster, or its part of it, doesn't work.
fn is_down(error: &EngineError) -> bool {
    let error = error.source.downcast_ref::<RedisError>();
    error.is_some_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::ClusterDown))
}
