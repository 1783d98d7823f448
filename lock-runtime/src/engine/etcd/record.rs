//! What this process knows of one claim: its key, its leases, and whether it holds, waits or ends.

use crate::engine::etcd::connection::Connection;
use crate::engine::etcd::ending::Ending;
use crate::engine::etcd::line::{Line, Place};
use crate::engine::etcd::messages::{PutRequest, RequestOp, WatchResponse};
use crate::engine::etcd::server_lease::LeaseUse;
use crate::engine::etcd::slots::Slot;
use crate::engine::etcd::txn;
use crate::engine::event::EngineEvent;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use crate::util::time::{elapsed_since, now};
use prost::bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a line that a watch follows is believed without another look.
const MAX_AGE: Duration = Duration::from_secs(10);

/// What is known of one claim.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) slot: Arc<Slot>,
    /// Its requests are sent one after the other.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// The leases that the claim's key may be attached to.
    pub(super) leases: Vec<Arc<LeaseUse>>,
    pub(super) phase: Phase,
    pub(super) ending: Option<watch::Receiver<Ending>>,
}

#[derive(Clone)]
pub(super) enum Phase {
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
pub(super) struct Wait {
    line: Line,
    pub(super) watch: i64,
    connection: Weak<Connection>,
    looked_at: Instant,
    is_stale: bool,
}

/// The answer to a question that needs no request.
pub(super) enum Known {
    Granted,
    Waits(Place),
    Nothing,
}

impl Record {
    pub(super) fn new(slot: Arc<Slot>) -> Record {
        Record {
            slot,
            turn: Arc::default(),
            leases: Vec::new(),
            phase: Phase::Requested,
            ending: None,
        }
    }

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

    /// Returns the write of the claim's key.
    pub(super) fn put(&self, token: Token, lease: i64) -> RequestOp {
        txn::put(PutRequest {
            key: self.slot.key.clone(),
            value: value_of(token),
            lease,
            ignore_lease: false,
        })
    }

    /// Returns what the watch of a waiting claim tells, while it can be believed.
    pub(super) fn known(&self, token: Token) -> Known {
        match &self.phase {
            Phase::Granted => Known::Granted,
            Phase::Waits(wait) if wait.is_fresh() && !self.has_lost_lease() => {
                let place = wait.line.place_of(&self.slot.key, &value_of(token));
                place.map_or(Known::Nothing, Known::Waits)
            }
            Phase::Requested | Phase::Waits(_) | Phase::Held { .. } => Known::Nothing,
        }
    }

    /// Follows what the watch of a waiting claim reports. Returns the event for the claim, and `true` if the watch is
    /// needed no more.
    pub(super) fn follow(
        &mut self,
        token: Token,
        message: &WatchResponse,
    ) -> Option<(EngineEvent, bool)> {
        let Phase::Waits(wait) = &mut self.phase else {
            return None;
        };
        let (key, value) = (&self.slot.key, value_of(token));
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
        for event in &message.events {
            wait.line.apply(event);
        }
        let place = wait.line.place_of(key, &value);
        match place {
            Some(Place::Holds) => {
                self.phase = Phase::Granted;
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
}

impl Wait {
    pub(super) fn new(line: Line, watch: i64, connection: &Arc<Connection>) -> Wait {
        Wait {
            line,
            watch,
            connection: Arc::downgrade(connection),
            looked_at: now(),
            is_stale: false,
        }
    }

    /// Returns `true` while the line can be believed.
    fn is_fresh(&self) -> bool {
        let connection = self.connection.upgrade();
        let is_live = connection.is_some_and(|connection| !connection.has_ended());
        is_live && !self.is_stale && elapsed_since(self.looked_at) < MAX_AGE
    }
}

/// Returns a token as it is stored.
pub(super) fn value_of(token: Token) -> Bytes {
    Bytes::copy_from_slice(token.encode(&mut [0; 37]).as_bytes())
}
