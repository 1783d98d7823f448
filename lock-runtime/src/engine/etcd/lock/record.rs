//! What this process knows of one claim: its key, its leases, and whether it holds, waits or ends.

use crate::engine::common::ending::Ending;
use crate::engine::common::line::Place;
use crate::engine::etcd::conn::server_lease::LeaseUse;
use crate::engine::etcd::lock::entry::value_of;
use crate::engine::etcd::lock::slots::Slot;
use crate::engine::etcd::lock::watched_line::WatchedLine;
use crate::engine::etcd::wire::messages::{PutRequest, RequestOp, WatchResponse};
use crate::engine::etcd::wire::txn;
use crate::engine::event::EngineEvent;
use crate::engine::lease::Lease;
use crate::engine::token::Token;
use crate::util::clock::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// A holder begins with no less of its lease: one slow renewal must not lose the lock.
const HALF: (u32, u32) = (1, 2);

/// The first that waits keeps no less of its lease, so that half is left when it becomes the holder between two polls.
const TWO_THIRDS: (u32, u32) = (2, 3);

/// What is known of one claim.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) slot: Arc<Slot>,
    /// Its requests are sent one after the other.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    /// The leases that the claim's key may be attached to.
    pub(crate) leases: Vec<Arc<LeaseUse>>,
    pub(crate) phase: Phase,
    pub(crate) ending: Ending,
}

#[derive(Clone)]
pub(crate) enum Phase {
    Requested,
    Waits(Arc<WatchedLine>),
    /// The watch shows that the claim holds the lock, and no caller knows yet.
    Granted,
    Held,
}

/// What is known of a waiting claim without a request.
pub(crate) enum Known {
    Granted,
    Waits(Place),
    /// The claim holds the lock or is the next to do so, and its key must be attached to a new lease first.
    MustMove,
    Nothing,
}

impl Record {
    pub(crate) fn new(slot: Arc<Slot>) -> Record {
        Record {
            slot,
            turn: Arc::default(),
            leases: Vec::new(),
            phase: Phase::Requested,
            ending: Ending::default(),
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.has_begun()
    }

    /// Returns for how long the server keeps the claim's key, as far as is proven.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        let leases = self.leases.iter();
        let ends = leases.map(|lease| lease.lease().remaining(now));
        ends.min().unwrap_or_default()
    }

    fn has_lost_lease(&self) -> bool {
        let mut leases = self.leases.iter();
        !self.leases.is_empty() && leases.all(|lease| lease.lease().is_lost())
    }

    /// Returns `true` if the server keeps the claim's key for that ttl from `since` on, on a lease of that length.
    pub(crate) fn is_proven(&self, since: Timestamp, ttl: Duration) -> bool {
        let whole = Lease::from_request(since, ttl).remaining(since);
        let mut leases = self.leases.iter();
        leases.all(|lease| lease.fits(ttl)) && self.remaining(since) >= whole
    }

    /// Returns `true` if less than that part of the lease is proven to be left.
    fn has_less_than(&self, (part, of): (u32, u32), now: Timestamp) -> bool {
        let ttl = self.leases.last().map(|lease| lease.lease().ttl());
        ttl.is_none_or(|ttl| self.remaining(now) < ttl / of * part)
    }

    /// Returns the write of the claim's key.
    pub(crate) fn put(&self, token: Token, lease: i64) -> RequestOp {
        txn::put(PutRequest {
            key: self.slot.key.clone(),
            value: value_of(token),
            lease,
            ignore_lease: false,
        })
    }

    /// Returns what the watch of a waiting claim shows, while it can be believed.
    pub(crate) fn known(&self, token: Token, now: Timestamp) -> Known {
        let place = match &self.phase {
            Phase::Granted => Some(Place::Holds),
            Phase::Waits(line) if line.is_live() && !self.has_lost_lease() => {
                line.place_of(&self.slot.key, &value_of(token))
            }
            Phase::Requested | Phase::Waits(_) | Phase::Held => None,
        };
        match place {
            Some(Place::Holds) if self.has_less_than(HALF, now) => Known::MustMove,
            // When it is its turn, that needs no request.
            Some(Place::Waits { ahead: 0, .. }) if self.has_less_than(TWO_THIRDS, now) => {
                Known::MustMove
            }
            Some(Place::Holds) => Known::Granted,
            Some(place) => Known::Waits(place),
            None => Known::Nothing,
        }
    }

    /// Follows what the watch of a waiting claim reports. Returns the event for the claim, and `true` if the watch is
    /// needed no more.
    pub(crate) fn follow(
        &mut self,
        token: Token,
        message: &WatchResponse,
    ) -> Option<(EngineEvent, bool)> {
        let line = match &mut self.phase {
            Phase::Waits(line) if line.watch == message.watch_id => line,
            _ => return None,
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
        let before = line.place_of(key, &value);
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
            Some(Place::Waits { ahead, .. }) if !message.canceled => {
                let was_behind = matches!(before, Some(Place::Waits { ahead, .. }) if ahead > 0);
                match ahead == 0 && was_behind {
                    true => Some((EngineEvent::AtFront(token), false)),
                    false => {
                        let joined = has_others(place) && !has_others(before);
                        joined.then_some((EngineEvent::MoreWaiters(token), false))
                    }
                }
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
