//! What this process knows of one claim: its key, its leases, and whether it holds, waits or ends.

use crate::engine::common::ending::Ending;
use crate::engine::common::line::Place;
use crate::engine::etcd::conn::server_lease::LeaseUse;
use crate::engine::etcd::lock::claim_keys::ClaimKey;
use crate::engine::etcd::lock::entry::value_of;
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

/// The first that waits keeps no less of its lease, so that half is left when it becomes the holder between
/// two polls.
const TWO_THIRDS: (u32, u32) = (2, 3);

/// What is known of one claim.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) key: Arc<ClaimKey>,
    /// Its requests are sent one after the other.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    /// The leases that the claim's key may be attached to.
    pub(crate) leases: Vec<Arc<LeaseUse>>,
    pub(crate) phase: ClaimPhase,
    /// `true` if the claim may have entered the line, which it does once: one that was taken out does not
    /// return.
    pub(crate) has_entered: bool,
    pub(crate) ending: Ending,
}

#[derive(Clone)]
pub(crate) enum ClaimPhase {
    Requested,
    Waits(Arc<WatchedLine>),
    /// The watch shows that the claim holds the lock, and no caller knows yet.
    Granted,
    Held,
    /// Its key has been in the line, and is no longer: the claim has ended.
    Gone,
}

/// What is known of a waiting claim without a request.
pub(crate) enum Known {
    Granted,
    Waits(Place),
    /// The claim holds the lock or is the next to do so, and its key must be attached to a new lease first.
    MustMove,
    Nothing,
    Gone,
}

impl Record {
    pub(crate) fn new(key: Arc<ClaimKey>) -> Record {
        Record {
            key,
            turn: Arc::default(),
            leases: Vec::new(),
            phase: ClaimPhase::Requested,
            has_entered: false,
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

    /// Returns `true` if the server keeps the claim's key for that ttl from `since` on, on a lease of that
    /// length.
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
            key: self.key.bytes.clone(),
            value: value_of(token),
            lease,
            ignore_lease: false,
        })
    }

    /// Returns what the watch of a waiting claim shows, while it can be believed.
    pub(crate) fn known(&self, token: Token, now: Timestamp) -> Known {
        let place = match &self.phase {
            ClaimPhase::Granted => Some(Place::Holds),
            ClaimPhase::Waits(line) if line.is_live() && !self.has_lost_lease() => {
                line.place_of(&self.key.bytes, &value_of(token))
            }
            ClaimPhase::Gone => return Known::Gone,
            ClaimPhase::Requested | ClaimPhase::Waits(_) | ClaimPhase::Held => None,
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

    /// Follows what the watch of a waiting claim reports. Returns the event for the claim, and `true` if the
    /// watch is needed no more.
    pub(crate) fn follow(
        &mut self,
        token: Token,
        message: &WatchResponse,
    ) -> Option<(EngineEvent, bool)> {
        let line = match &mut self.phase {
            ClaimPhase::Waits(line) if line.watch == message.watch_id => line,
            _ => return None,
        };
        let (key, value) = (&self.key.bytes, value_of(token));
        let line = Arc::make_mut(line);
        let before = line.place_of(key, &value);
        line.follow(message);
        match line.place_of(key, &value) {
            Some(Place::Holds) => {
                self.phase = ClaimPhase::Granted;
                Some((EngineEvent::MayBeFree(token), true))
            }
            Some(after) if !message.canceled => {
                event_for(token, before, after).map(|event| (event, false))
            }
            None if !message.canceled && !line.is_read() => None,
            // It is read again.
            None if !message.canceled && line.is_too_old() => {
                Some((EngineEvent::MayBeFree(token), false))
            }
            _ => {
                line.end();
                Some((EngineEvent::MayBeFree(token), true))
            }
        }
    }
}

/// Returns the event for a claim that waits, if its caller acts on the change of its place.
fn event_for(token: Token, before: Option<Place>, after: Place) -> Option<EngineEvent> {
    let ahead_and_others = |place| match place {
        Place::Holds => (0, false),
        Place::Waits {
            ahead, has_others, ..
        } => (ahead, has_others),
    };
    let (was_ahead, had_others) = before.map_or((0, false), ahead_and_others);
    let (ahead, has_others) = ahead_and_others(after);
    if ahead == 0 && was_ahead > 0 {
        return Some(EngineEvent::AtFront(token));
    }
    (has_others && !had_others).then_some(EngineEvent::MoreWaiters(token))
}
