//! The node of a claim, from before it is requested until it is known to be gone.

use crate::engine::common::claim_table::ClaimTable;
use crate::engine::common::ending::Ending;
use crate::engine::token::Token;
use crate::engine::zookeeper::conn::session::Session;
use crate::engine::zookeeper::lock::entry::{Child, stem};
use crate::util::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Node {
    /// The path of the lock.
    pub(crate) lock: String,
    /// The node ends with this session.
    pub(crate) session: Arc<Session>,
    /// The beginning of its name, which is unique.
    pub(crate) stem: String,
    /// The turn to create or delete the node.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// It finishes when the node is known to be gone.
    pub(crate) ending: Ending,
    state: Mutex<NodeState>,
}

struct NodeState {
    /// The claim's token; a downgrade changes it.
    token: Token,
    presence: Presence,
    /// `true` if the next look is to watch all changes to the lock.
    watches_all: bool,
    /// Becomes `true` when the one claim is gone without which this one holds the lock.
    blocker_gone: Option<Arc<AtomicBool>>,
    /// `true` once it is reported when others are in the line.
    reports_others: bool,
}

/// Whether a node exists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Presence {
    /// It was not requested.
    Absent,
    /// It was requested, and may exist.
    Requested,
    /// It has this name.
    Present(String),
    /// It existed, or may have, and does no more.
    Gone,
}

impl Node {
    pub(crate) fn new(token: Token, lock: String, session: Arc<Session>) -> Node {
        Node {
            lock,
            session,
            stem: stem(token),
            turn: tokio::sync::Mutex::new(()),
            state: Mutex::new(NodeState {
                token,
                presence: Presence::Absent,
                watches_all: true,
                blocker_gone: None,
                reports_others: false,
            }),
            ending: Ending::default(),
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

    /// Returns `false` if it is reported already when others are in the line.
    pub(crate) fn begin_to_watch_for_others(&self) -> bool {
        !std::mem::replace(&mut self.state().reports_others, true)
    }

    /// Returns `true` if the child is this node.
    pub(crate) fn is(&self, child: &Child) -> bool {
        child.name.starts_with(&self.stem)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.ending.has_begun()
    }

    /// Gives the claim another token, unless the node is to be deleted. Returns `true` if it has that token
    /// now.
    pub(crate) fn rename(&self, claims: &ClaimTable<Arc<Node>>, to: Token) -> bool {
        // The mutex makes `forget` wait, which looks for the present token.
        let mut state = self.state();
        if self.is_leaving() {
            return false;
        }
        claims.rename(state.token, to);
        state.token = to;
        true
    }

    /// Removes the node from the table, unless another one has replaced it.
    pub(crate) fn forget(&self, claims: &ClaimTable<Arc<Node>>) {
        let state = self.state();
        claims.remove_if(state.token, |known| std::ptr::eq(&**known, self));
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock()
    }
}
