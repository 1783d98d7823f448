//! What this process knows of one claim: its key, its leases, and whether it holds, waits or ends.

use crate::engine::etcd::ending::Ending;
use crate::engine::etcd::line::Place;
use crate::engine::etcd::messages::{PutRequest, RequestOp, WatchResponse};
use crate::engine::etcd::server_lease::LeaseUse;
use crate::engine::etcd::slots::Slot;
use crate::engine::etcd::txn;
use crate::engine::etcd::watched_line::WatchedLine;
use crate::engine::event::EngineEvent;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use prost::bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

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
    Waits(Arc<WatchedLine>),
    /// The watch tells that the claim holds the lock, and no caller knows yet.
    Granted,
    Held {
        since: Timestamp,
        ttl: Duration,
    },
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
            Phase::Waits(line) if line.is_live() && !self.has_lost_lease() => {
                let place = line.place_of(&self.slot.key, &value_of(token));
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
        let Phase::Waits(line) = &mut self.phase else {
            return None;
        };
        let (key, value) = (&self.slot.key, value_of(token));
        let line = Arc::make_mut(line);
        let has_others = |place| {
            matches!(
                place,
                Some(Place::Waits {
                    has_others: true,
                    ..
                })
            )
        };
        let had_others = has_others(line.place_of(key, &value));
        line.follow(message);
        if !message.canceled && !line.is_read() {
            return None;
        }
        let place = line.place_of(key, &value);
        match place {
            Some(Place::Holds) => {
                self.phase = Phase::Granted;
                Some((EngineEvent::MayBeFree(token), true))
            }
            Some(Place::Waits { .. }) if !message.canceled => {
                let joined = has_others(place) && !had_others;
                joined.then_some((EngineEvent::MoreWaiters(token), false))
            }
            // It is read again.
            None if line.is_too_old() && !message.canceled => {
                Some((EngineEvent::MayBeFree(token), false))
            }
            _ => {
                line.end();
                Some((EngineEvent::MayBeFree(token), true))
            }
        }
    }
}

/// Returns a token as it is stored.
pub(super) fn value_of(token: Token) -> Bytes {
    Bytes::copy_from_slice(token.encode(&mut [0; 37]).as_bytes())
}
