//! The nodes of this process' claims.

use crate::engine::token::Token;
use crate::engine::zookeeper::entry::stem;
use crate::engine::zookeeper::net::session::Session;
use crate::util::thread_end::Debt;
use crate::util::time::{deadline_in, now, timeout_at};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The node of a claim, from before it is requested until it is known to be gone.
pub(crate) struct Node {
    /// The path of the lock.
    pub(crate) lock: String,
    /// The node ends with this session.
    pub(crate) session: Arc<Session>,
    /// The beginning of its name, which is unique.
    pub(crate) stem: String,
    /// The turn to create or delete the node.
    pub(crate) turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    end: Notify,
}

struct State {
    /// The claim's token; a downgrade changes it.
    token: Token,
    presence: Presence,
    leaving: bool,
    /// `Some` once the node is gone: `true` if it was deleted for this process.
    gone: Option<bool>,
    expires: Instant,
    /// When the table looks at the node next.
    looked_at: Option<Look>,
    /// `true` if the next look is to watch all changes to the lock.
    watches_all: bool,
    /// Becomes `true` when the one claim is gone without which this one holds the lock.
    blocker_gone: Option<Arc<AtomicBool>>,
}

/// An instant at which the table looks at a node, with a number that makes it unique.
type Look = (Instant, u64);

/// Whether a node exists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Presence {
    Absent,
    /// It was requested, and may exist.
    Requested,
    /// It has this name.
    Present(String),
}

impl Node {
    pub(crate) fn new(token: Token, lock: String, session: Arc<Session>) -> Node {
        Node {
            lock,
            session,
            stem: stem(token),
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::new(State {
                token,
                presence: Presence::Absent,
                leaving: false,
                gone: None,
                expires: now(),
                looked_at: None,
                watches_all: true,
                blocker_gone: None,
            }),
            end: Notify::new(),
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.state().token
    }

    /// Returns the path of the node with that name.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.lock)
    }

    /// Returns the node's path, if its name is known.
    pub(crate) fn known_path(&self) -> Option<String> {
        match self.presence() {
            Presence::Present(name) => Some(self.path(&name)),
            _ => None,
        }
    }

    pub(crate) fn presence(&self) -> Presence {
        self.state().presence.clone()
    }

    pub(crate) fn set_presence(&self, presence: Presence) {
        let mut state = self.state();
        state.presence = presence;
        state.blocker_gone = None;
    }

    pub(crate) fn watches_all(&self) -> bool {
        self.state().watches_all
    }

    pub(crate) fn set_watches_all(&self, watches_all: bool) {
        self.state().watches_all = watches_all;
    }

    /// Lets the claim hold the lock once that is `true`.
    pub(crate) fn set_blocker_gone(&self, blocker_gone: Arc<AtomicBool>) {
        self.state().blocker_gone = Some(blocker_gone);
    }

    /// Returns `true` if the one claim is gone without which this one holds the lock, and forgets that.
    pub(crate) fn take_blocker_gone(&self) -> bool {
        let blocker_gone = self.state().blocker_gone.take();
        blocker_gone.is_some_and(|is_gone| is_gone.load(Ordering::Acquire))
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.state().leaving
    }

    /// Records that the node is to be deleted; returns `false` if that is so already.
    pub(crate) fn begin_leaving(&self) -> bool {
        !std::mem::replace(&mut self.state().leaving, true)
    }

    pub(crate) fn set_gone(&self, deleted: bool) {
        self.state().gone = Some(deleted);
        self.end.notify_waiters();
    }

    /// Waits until the node is gone. Returns `true` if it was deleted for this process.
    pub(crate) async fn until_gone(&self) -> bool {
        loop {
            let end = self.end.notified();
            if let Some(deleted) = self.state().gone {
                return deleted;
            }
            end.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All nodes of a process, and when they expire.
#[derive(Default)]
pub(crate) struct Nodes {
    state: Mutex<Table>,
    earlier: Notify,
}

#[derive(Default)]
struct Table {
    nodes: HashMap<Token, Arc<Node>>,
    /// Those whose callers are about to wait under another token.
    reserved: Vec<(Arc<Node>, Debt)>,
    /// For each node that expires an instant that is not later.
    due: BTreeMap<Look, Arc<Node>>,
    last_number: u64,
}

impl Nodes {
    pub(crate) fn get(&self, token: Token) -> Option<Arc<Node>> {
        self.table().nodes.get(&token).cloned()
    }

    pub(crate) fn insert(&self, node: Arc<Node>) {
        self.table().nodes.insert(node.token(), node);
    }

    /// Removes a node, unless another one has replaced it.
    pub(crate) fn remove(&self, node: &Arc<Node>) {
        let mut table = self.table();
        let mut state = node.state();
        if let Some(look) = state.looked_at.take() {
            table.due.remove(&look);
        }
        let known = table.nodes.get(&state.token);
        if known.is_some_and(|known| Arc::ptr_eq(known, node)) {
            table.nodes.remove(&state.token);
        }
    }

    /// Gives a node another token, unless it is to be deleted. Returns `true` if it has that token now.
    pub(crate) fn rename(&self, node: &Arc<Node>, to: Token) -> bool {
        let mut table = self.table();
        let mut state = node.state();
        if state.leaving {
            return false;
        }
        table.nodes.remove(&state.token);
        state.token = to;
        table.nodes.insert(to, node.clone());
        true
    }

    pub(crate) fn reserve(&self, node: &Arc<Node>) {
        self.table().reserved.push((node.clone(), Debt::new()));
    }

    /// Returns the first reserved node that is accepted, which is no longer reserved.
    /// With the debt of the thread for which it was reserved.
    pub(crate) fn take_reserved(
        &self,
        accepts: impl Fn(&Node) -> bool,
    ) -> Option<(Arc<Node>, Debt)> {
        let reserved = &mut self.table().reserved;
        let at = reserved.iter().position(|(node, _)| accepts(node))?;
        Some(reserved.remove(at))
    }

    /// Returns `true` if no node depends on the session.
    pub(crate) fn are_none_of(&self, session: &Arc<Session>) -> bool {
        let table = self.table();
        let mut nodes = table.nodes.values();
        !nodes.any(|node| Arc::ptr_eq(&node.session, session))
    }

    /// Lets the node end after that time, unless this is called again before.
    pub(crate) fn expire_in(&self, token: Token, time: Duration) {
        let at = deadline_in(time);
        let mut table = self.table();
        let Some(node) = table.nodes.get(&token).cloned() else {
            return;
        };
        let mut state = node.state();
        state.expires = at;
        if state
            .looked_at
            .is_some_and(|(looked_at, _)| looked_at <= at)
        {
            return;
        }
        if let Some(later) = state.looked_at {
            table.due.remove(&later);
        }
        let look = table.schedule(at, &node);
        state.looked_at = Some(look);
        if table.due.keys().next() == Some(&look) {
            self.earlier.notify_one();
        }
    }

    /// Waits until nodes have expired, and returns them.
    pub(crate) async fn expired(&self) -> Vec<Arc<Node>> {
        loop {
            let (expired, next) = self.take_expired();
            if !expired.is_empty() {
                return expired;
            }
            let next = next.unwrap_or_else(|| deadline_in(Duration::MAX));
            let _ = timeout_at(next, self.earlier.notified()).await;
        }
    }

    fn take_expired(&self) -> (Vec<Arc<Node>>, Option<Instant>) {
        let now = now();
        let mut table = self.table();
        let mut expired = Vec::new();
        while let Some(first) = table.due.first_entry()
            && first.key().0 <= now
        {
            let node = first.remove();
            let mut state = node.state();
            let expires = state.expires;
            state.looked_at = (expires > now).then(|| table.schedule(expires, &node));
            drop(state);
            if expires <= now {
                expired.push(node);
            }
        }
        let next = table.due.keys().next().map(|(at, _)| *at);
        (expired, next)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn schedule(&mut self, at: Instant, node: &Arc<Node>) -> Look {
        self.last_number += 1;
        let look = (at, self.last_number);
        self.due.insert(look, node.clone());
        look
    }
}
