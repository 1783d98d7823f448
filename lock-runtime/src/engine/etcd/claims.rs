//! The claims of this process, and the watches of those that wait.

use crate::engine::common::line::Line;
use crate::engine::etcd::connection::Connection;
use crate::engine::etcd::ending::Ending;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::messages::{KeyValue, WatchResponse};
use crate::engine::etcd::record::{Known, Phase, Record};
use crate::engine::etcd::server_lease::LeaseUse;
use crate::engine::etcd::slots::Slots;
use crate::engine::etcd::watched_line::WatchedLine;
use crate::engine::event::EngineEvent;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::deadline_in;
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub(super) struct Claims {
    keys: Keys,
    slots: Arc<Slots>,
    state: Mutex<State>,
    /// A claim may end sooner than any before it.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct State {
    records: HashMap<Token, Record>,
    watches: HashMap<i64, Token>,
    last_watch: i64,
    /// When the next claim is over, as far as the task that ends them knows.
    next_over: Option<Instant>,
}

/// The end of a claim.
pub(super) struct End {
    /// How far it is.
    pub(super) ending: watch::Receiver<Ending>,
    /// Who is to be told, and the claim's record, if it has only begun.
    pub(super) begun: Option<(watch::Sender<Ending>, Record)>,
}

impl Claims {
    pub(super) fn new(keys: Keys) -> Claims {
        Claims {
            keys,
            slots: Arc::default(),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claim that may be new.
    pub(super) fn enter(&self, claim: &Claim) {
        let mut state = self.state();
        let new = || Record::new(self.slots.take(&self.keys, &claim.name, 0));
        state.records.entry(claim.token).or_insert_with(new);
    }

    pub(super) fn find(&self, token: Token) -> Option<Record> {
        self.state().records.get(&token).cloned()
    }

    /// Returns the record if the claim is not about to end.
    pub(super) fn find_open(&self, token: Token) -> Option<Record> {
        self.find(token).filter(|record| !record.is_ending())
    }

    pub(super) fn forget(&self, token: Token) {
        let mut state = self.state();
        state.watches.retain(|_, watched| *watched != token);
        let forgotten = state.records.remove(&token);
        drop(state);
        drop(forgotten);
    }

    fn change(&self, token: Token, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.state().records.get_mut(&token) {
            change(record);
        }
    }

    /// Records that the claim's key may be attached to that lease, too.
    pub(super) fn add_lease(&self, token: Token, lease: Arc<LeaseUse>) {
        self.change(token, |record| record.leases.push(lease));
    }

    /// Records that the claim's key is attached to that lease.
    pub(super) fn set_lease(&self, claim: &Claim, lease: &Arc<LeaseUse>) {
        self.change(claim.token, |record| record.leases = vec![lease.clone()]);
    }

    /// Records to which of its leases the claim's key is attached.
    pub(super) fn settle(&self, token: Token, lease: i64) {
        self.change(token, |record| {
            record.leases.retain(|share| share.lease().id == lease);
        });
    }

    /// Records that the keys of both tokens are one.
    pub(super) fn share_leases(&self, token: Token, second: Token) {
        let leases = self.find(token).map(|record| record.leases);
        self.change(second, |record| record.leases = leases.unwrap_or_default());
    }

    /// Gives the claim a key that is not in the line, if another client has written to its present one.
    pub(super) fn move_on(&self, claim: &Claim, line: &Line<KeyValue>) {
        self.change(claim.token, |record| {
            let is_taken = |key: &Bytes| line.entries().iter().any(|kv| kv.key == key);
            while is_taken(&record.slot.key) {
                let next = record.slot.number + 1;
                record.slot = self.slots.take(&self.keys, &claim.name, next);
            }
        });
    }

    /// Adds a second token for the same key, of which one will remain.
    pub(super) fn add_token(&self, token: Token, second: Token) {
        let mut state = self.state();
        let Some(record) = state.records.get(&token) else {
            return;
        };
        let added = Record {
            phase: Phase::Requested,
            ending: None,
            ..record.clone()
        };
        state.records.entry(second).or_insert(added);
    }

    pub(super) fn is_held(&self, token: Token) -> bool {
        let record = self.find_open(token);
        record.is_some_and(|record| matches!(record.phase, Phase::Held { .. }))
    }

    pub(super) fn forget_unless_ending(&self, token: Token) {
        if self.find_open(token).is_some() {
            self.forget(token);
        }
    }

    /// Records that the claim holds the lock, and that it ends when that ttl has passed since then. Returns `false` if
    /// it ends already.
    pub(super) fn hold(&self, token: Token, since: Timestamp, ttl: Duration) -> bool {
        let mut open = false;
        let mut state = self.state();
        if let Some(record) = state.records.get_mut(&token) {
            open = !record.is_ending();
            record.phase = Phase::Held { since, ttl };
        }
        state.watches.retain(|_, watched| *watched != token);
        let over = deadline_in(ttl);
        let is_next = state.next_over.is_none_or(|next| over < next);
        if is_next {
            state.next_over = Some(over);
            self.changed.notify_one();
        }
        open
    }

    /// Prepares for the claim's line to be read through that connection. Returns `false` if no watch of it follows the
    /// line.
    pub(super) fn begin_to_read(&self, token: Token, connection: &Arc<Connection>) -> bool {
        match self.state().records.get_mut(&token).map(|it| &mut it.phase) {
            Some(Phase::Waits(line)) if line.is_of(connection) => {
                Arc::make_mut(line).begin_to_read();
                true
            }
            _ => false,
        }
    }

    /// Returns the number of a new watch, which is to follow the claim's line.
    pub(super) fn begin_to_watch(&self, token: Token, connection: &Arc<Connection>) -> i64 {
        let mut state = self.state();
        state.last_watch += 1;
        let watch = state.last_watch;
        if let Some(record) = state.records.get_mut(&token) {
            record.phase = Phase::Waits(Arc::new(WatchedLine::new(watch, connection)));
            state.watches.insert(watch, token);
        }
        watch
    }

    /// Takes the claim's line as it was read at that revision.
    pub(super) fn read(&self, token: Token, line: Line<KeyValue>, revision: i64) {
        self.change(token, |record| {
            if let Phase::Waits(watched) = &mut record.phase {
                Arc::make_mut(watched).read(line, revision);
            }
        });
    }

    /// Returns what the watch of a waiting claim tells, while it can be believed.
    pub(super) fn known(&self, token: Token, now: Timestamp) -> Known {
        let record = self.find_open(token);
        record.map_or(Known::Nothing, |record| record.known(token, now))
    }

    /// Forgets what the watch of a waiting claim tells.
    pub(super) fn doubt(&self, token: Token) {
        self.change(token, |record| match &mut record.phase {
            Phase::Waits(line) => Arc::make_mut(line).end(),
            phase => *phase = Phase::Requested,
        });
    }

    /// Forgets the watch of a claim that waits, and returns it.
    pub(super) fn take_watch(&self, token: Token) -> Option<i64> {
        let mut state = self.state();
        let record = state.records.get_mut(&token)?;
        let Phase::Waits(line) = &record.phase else {
            return None;
        };
        let watch = line.watch;
        record.phase = Phase::Requested;
        state.watches.remove(&watch).map(|_| watch)
    }

    /// Follows what a watch reports. Returns the event for the claim, and `true` if the watch is needed no more.
    pub(super) fn follow(&self, message: &WatchResponse) -> Option<(EngineEvent, bool)> {
        let mut state = self.state();
        let token = *state.watches.get(&message.watch_id)?;
        let record = state.records.get_mut(&token)?;
        let followed = record.follow(token, message);
        if matches!(record.phase, Phase::Granted) {
            state.watches.remove(&message.watch_id);
        }
        followed
    }

    /// Begins to end a claim. Returns `None` if there is no such claim.
    pub(super) fn end(&self, token: Token) -> Option<End> {
        let mut state = self.state();
        let record = state.records.get_mut(&token)?;
        if let Some(ending) = &record.ending {
            return Some(End {
                ending: ending.clone(),
                begun: None,
            });
        }
        let (sender, receiver) = watch::channel(Ending::Begun);
        record.ending = Some(receiver.clone());
        let record = record.clone();
        Some(End {
            ending: receiver,
            begun: Some((sender, record)),
        })
    }

    /// Returns the claims whose time is over, and when that of the next one is.
    pub(super) fn over(&self, now: Timestamp) -> (Vec<Token>, Option<Instant>) {
        let mut state = self.state();
        let (mut over, mut next) = (Vec::new(), None::<Duration>);
        for (token, record) in &state.records {
            let Phase::Held { since, ttl } = record.phase else {
                continue;
            };
            if record.is_ending() {
                continue;
            }
            let left = ttl.saturating_sub(now.elapsed_since(since));
            match left.is_zero() {
                true => over.push(*token),
                false => next = Some(next.map_or(left, |next| next.min(left))),
            }
        }
        state.next_over = next.map(deadline_in);
        (over, state.next_over)
    }
}
