//! What this process knows of its claims: their keys, their leases, and whether they hold, wait or end.

use crate::engine::error::EngineError;
use crate::engine::etcd::connection::Connection;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::leases::LeaseUse;
use crate::engine::etcd::line::{Line, Place};
use crate::engine::etcd::messages::WatchResponse;
use crate::engine::etcd::slots::{Slot, Slots};
use crate::engine::event::EngineEvent;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use crate::util::sync::{Mutex, MutexGuard};
use crate::util::time::{deadline_in, elapsed_since, now as instant};
use prost::bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long a line that a watch follows is believed without another look.
const MAX_AGE: Duration = Duration::from_secs(10);

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

/// What is known of one claim.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) slot: Arc<Slot>,
    /// Its requests are sent one after the other.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// The leases that the claim's key may be attached to.
    pub(super) leases: Vec<Arc<LeaseUse>>,
    phase: Phase,
    ending: Option<watch::Receiver<Ending>>,
}

#[derive(Clone)]
enum Phase {
    Requested,
    Waits(Arc<Wait>),
    /// The watch tells that the claim holds the lock, and no caller knows yet.
    Granted,
    Held {
        since: Timestamp,
        ttl: Duration,
    },
}

#[derive(Clone)]
struct Wait {
    line: Line,
    watch: i64,
    connection: Weak<Connection>,
    looked_at: Instant,
    is_stale: bool,
}

/// How far the end of a claim is.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    Begun,
    Failed(EngineError),
    /// `true` if the claim was in the line until then.
    Done(bool),
}

/// The end of a claim.
pub(super) struct End {
    /// How far it is.
    pub(super) ending: watch::Receiver<Ending>,
    /// Who is to be told, and the claim's record, if it has only begun.
    pub(super) begun: Option<(watch::Sender<Ending>, Record)>,
}

/// The answer to a question that needs no request.
pub(super) enum Known {
    Granted,
    Waits(Place),
    Nothing,
}

impl Record {
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns for how long the server keeps the claim's key, as far as is proven.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        let leases = self.leases.iter();
        let ends = leases.map(|lease| lease.lease().remaining(now));
        ends.min().unwrap_or_default()
    }

    fn has_lost_lease(&self) -> bool {
        self.leases.iter().all(|lease| lease.lease().is_lost())
    }
}

/// Returns a token as it is stored.
pub(super) fn value_of(token: Token) -> Bytes {
    Bytes::copy_from_slice(token.encode(&mut [0; 37]).as_bytes())
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

    /// Returns the record of a claim that may be new.
    pub(super) fn enter(&self, claim: &Claim) -> Record {
        let mut state = self.state();
        let record = state.records.entry(claim.token).or_insert_with(|| Record {
            slot: self.slots.take(&self.keys, &claim.name, 0),
            turn: Arc::default(),
            leases: Vec::new(),
            phase: Phase::Requested,
            ending: None,
        });
        record.clone()
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

    pub(super) fn set_leases(&self, token: Token, leases: Vec<Arc<LeaseUse>>) {
        self.change(token, |record| record.leases = leases);
    }

    /// Gives the claim another key, since a client has written to the present one.
    pub(super) fn move_on(&self, claim: &Claim, from: &Slot) {
        let slot = self.slots.take(&self.keys, &claim.name, from.number + 1);
        self.change(claim.token, |record| record.slot = slot);
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

    /// Records that the claim waits in that line. Returns the number of a watch that is to follow it.
    pub(super) fn wait(&self, token: Token, line: Line, connection: &Arc<Connection>) -> i64 {
        let mut state = self.state();
        state.last_watch += 1;
        let watch = state.last_watch;
        state.watches.retain(|_, watched| *watched != token);
        if let Some(record) = state.records.get_mut(&token) {
            record.phase = Phase::Waits(Arc::new(Wait {
                line,
                watch,
                connection: Arc::downgrade(connection),
                looked_at: instant(),
                is_stale: false,
            }));
            state.watches.insert(watch, token);
        }
        watch
    }

    /// Returns what the watch of a waiting claim tells, while it can be believed.
    pub(super) fn known(&self, token: Token) -> Known {
        let Some(record) = self.find_open(token) else {
            return Known::Nothing;
        };
        match &record.phase {
            Phase::Granted => Known::Granted,
            Phase::Waits(wait) => {
                let connection = wait.connection.upgrade();
                let is_live = connection.is_some_and(|connection| !connection.has_ended());
                let place = wait.line.place_of(&record.slot.key, &value_of(token));
                match place {
                    Some(place)
                        if is_live
                            && !wait.is_stale
                            && !record.has_lost_lease()
                            && elapsed_since(wait.looked_at) < MAX_AGE =>
                    {
                        Known::Waits(place)
                    }
                    _ => Known::Nothing,
                }
            }
            Phase::Requested | Phase::Held { .. } => Known::Nothing,
        }
    }

    /// Returns the watch of a claim that waits.
    pub(super) fn watch_of(&self, token: Token) -> Option<i64> {
        match self.state().records.get(&token)?.phase {
            Phase::Waits(ref wait) => Some(wait.watch),
            _ => None,
        }
    }

    /// Follows what a watch reports. Returns the event for the claim, and `true` if the watch is needed no more.
    pub(super) fn follow(&self, message: &WatchResponse) -> Option<(EngineEvent, bool)> {
        let mut state = self.state();
        let token = *state.watches.get(&message.watch_id)?;
        let record = state.records.get_mut(&token)?;
        let Phase::Waits(wait) = &mut record.phase else {
            return None;
        };
        let (key, value) = (&record.slot.key, value_of(token));
        let wait = Arc::make_mut(wait);
        let has_others = |place| {
            matches!(
                place,
                Some(Place::Waits {
                    has_others: true,
                    ..
                })
            )
        };
        let had_others = has_others(wait.line.place_of(key, &value));
        message
            .events
            .iter()
            .for_each(|event| wait.line.apply(event));
        let place = wait.line.place_of(key, &value);
        match place {
            Some(Place::Holds) => {
                record.phase = Phase::Granted;
                state.watches.remove(&message.watch_id);
                Some((EngineEvent::MayBeFree(token), true))
            }
            Some(Place::Waits { .. }) if !message.canceled => {
                let joined = has_others(place) && !had_others;
                joined.then_some((EngineEvent::MoreWaiters(token), false))
            }
            _ => {
                wait.is_stale = true;
                Some((EngineEvent::MayBeFree(token), true))
            }
        }
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
