//! The claims of this process, and the watches of those that wait.

use crate::engine::common::claim_table::ClaimTable;
use crate::engine::common::ending::Ending;
use crate::engine::common::line::Line;
use crate::engine::etcd::conn::connection::Connection;
use crate::engine::etcd::conn::server_lease::LeaseUse;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::lock::claim_keys::ClaimKeys;
use crate::engine::etcd::lock::record::{ClaimPhase, Known, Record};
use crate::engine::etcd::lock::watched_line::WatchedLine;
use crate::engine::etcd::lock::watches::Watches;
use crate::engine::etcd::wire::messages::{KeyValue, WatchResponse};
use crate::engine::event::EngineEvent;
use crate::engine::request::Claim;
use crate::engine::token::Token;
use crate::util::clock::{Clock, Timestamp};
use prost::bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Claims {
    keys: Keys,
    own_keys: Arc<ClaimKeys>,
    pub(crate) table: Arc<ClaimTable<Record>>,
    watches: Watches,
}

impl Claims {
    pub(crate) fn new(keys: Keys, clock: Clock) -> Claims {
        Claims {
            keys,
            own_keys: Arc::default(),
            table: Arc::new(ClaimTable::new(clock)),
            watches: Watches::default(),
        }
    }

    /// Adds a claim that may be new.
    pub(crate) fn enter(&self, claim: &Claim) {
        let new = || Record::new(self.own_keys.take(&self.keys, &claim.name, 0));
        self.table.get_or_insert(claim.token, |_| true, new);
    }

    pub(crate) fn find(&self, token: Token) -> Option<Record> {
        self.table.get(token)
    }

    /// Returns the record if the claim is not about to end.
    pub(crate) fn find_open(&self, token: Token) -> Option<Record> {
        self.find(token).filter(|record| !record.is_ending())
    }

    pub(crate) fn forget(&self, token: Token) {
        if let Some(record) = self.table.remove(token) {
            self.leave(&record.phase);
        }
    }

    /// Forgets the watch of a claim that no longer waits.
    fn leave(&self, phase: &ClaimPhase) {
        if let ClaimPhase::Waits(line) = phase {
            self.watches.remove(line.watch);
        }
    }

    fn change(&self, token: Token, change: impl FnOnce(&mut Record)) {
        self.table.change(token, change);
    }

    /// Records that the claim's key may be attached to that lease, too.
    pub(crate) fn add_lease(&self, token: Token, lease: Arc<LeaseUse>) {
        self.change(token, |record| record.leases.push(lease));
    }

    /// Records that the claim's key is attached to that lease.
    pub(crate) fn set_lease(&self, claim: &Claim, lease: &Arc<LeaseUse>) {
        self.change(claim.token, |record| record.leases = vec![lease.clone()]);
    }

    /// Records that the claim may have entered the line.
    pub(crate) fn set_entered(&self, token: Token) {
        self.change(token, |record| record.has_entered = true);
    }

    /// Records that the claim's key is gone from the line.
    pub(crate) fn set_gone(&self, token: Token) {
        self.change(token, |record| record.phase = ClaimPhase::Gone);
    }

    /// Records to which of its leases the claim's key is attached.
    pub(crate) fn settle(&self, token: Token, lease: i64) {
        self.change(token, |record| {
            record.leases.retain(|share| share.lease().id == lease);
        });
    }

    /// Records that the keys of both tokens are one.
    pub(crate) fn share_leases(&self, token: Token, second: Token) {
        let leases = self.find(token).map(|record| record.leases);
        self.change(second, |record| record.leases = leases.unwrap_or_default());
    }

    /// Gives the claim a key that is not in the line, if another client has written to its present one.
    pub(crate) fn move_on(&self, claim: &Claim, line: &Line<KeyValue>) {
        self.change(claim.token, |record| {
            let is_taken = |key: &Bytes| line.entries().iter().any(|kv| kv.key == key);
            while is_taken(&record.key.bytes) {
                let next = record.key.number + 1;
                record.key = self.own_keys.take(&self.keys, &claim.name, next);
            }
        });
    }

    /// Adds a second token for the same key, of which one will remain.
    pub(crate) fn add_token(&self, token: Token, second: Token) {
        if let Some(record) = self.find(token) {
            let added = || Record {
                phase: ClaimPhase::Requested,
                ending: Ending::default(),
                ..record
            };
            self.table.get_or_insert(second, |_| true, added);
        }
    }

    pub(crate) fn is_held(&self, token: Token) -> bool {
        let record = self.find_open(token);
        record.is_some_and(|record| matches!(record.phase, ClaimPhase::Held))
    }

    pub(crate) fn forget_unless_ending(&self, token: Token) {
        if self.find_open(token).is_some() {
            self.forget(token);
        }
    }

    /// Records that the claim holds the lock, and that it expires when that ttl has passed since then.
    /// Returns `false` if it ends already.
    pub(crate) fn hold(&self, token: Token, since: Timestamp, ttl: Duration) -> bool {
        let open = self.table.change(token, |record| {
            self.leave(&record.phase);
            record.phase = ClaimPhase::Held;
            !record.is_ending()
        });
        self.table.expire_since(token, since, ttl);
        open.unwrap_or(false)
    }

    /// Prepares for the claim's line to be read through that connection. Returns `false` if no watch of it
    /// follows the line.
    pub(crate) fn begin_to_read(&self, token: Token, connection: &Arc<Connection>) -> bool {
        let follows = self.table.change(token, |record| match &mut record.phase {
            ClaimPhase::Waits(line) if line.is_of(connection) => {
                Arc::make_mut(line).begin_to_read();
                true
            }
            _ => false,
        });
        follows.unwrap_or(false)
    }

    /// Returns the number of a new watch, which is to follow the claim's line.
    pub(crate) fn begin_to_watch(&self, token: Token, connection: &Arc<Connection>) -> i64 {
        let watch = self.watches.add(token);
        let added = self.table.change(token, |record| {
            self.leave(&record.phase);
            record.phase = ClaimPhase::Waits(Arc::new(WatchedLine::new(watch, connection)));
        });
        if added.is_none() {
            self.watches.remove(watch);
        }
        watch
    }

    /// Takes the claim's line as it was read at that revision.
    pub(crate) fn read(&self, token: Token, line: Line<KeyValue>, revision: i64) {
        self.change(token, |record| {
            if let ClaimPhase::Waits(watched) = &mut record.phase {
                Arc::make_mut(watched).read(line, revision);
            }
        });
    }

    /// Returns what the watch of a waiting claim shows, while it can be believed.
    pub(crate) fn known(&self, token: Token, now: Timestamp) -> Known {
        let record = self.find_open(token);
        record.map_or(Known::Nothing, |record| record.known(token, now))
    }

    /// Has the line of a waiting claim read again: the claim's key is not there as its watch shows.
    pub(crate) fn must_read_again(&self, token: Token) {
        self.change(token, |record| match &mut record.phase {
            ClaimPhase::Waits(line) => Arc::make_mut(line).end(),
            phase => *phase = ClaimPhase::Requested,
        });
    }

    /// Forgets the watch of a claim that waits, and returns it.
    pub(crate) fn take_watch(&self, token: Token) -> Option<i64> {
        let watch = self.table.change(token, |record| {
            let ClaimPhase::Waits(line) = &record.phase else {
                return None;
            };
            let watch = line.watch;
            record.phase = ClaimPhase::Requested;
            Some(watch)
        });
        watch.flatten().filter(|watch| self.watches.remove(*watch))
    }

    /// Follows what a watch reports. Returns the event for the claim, and `true` if the watch is needed no
    /// more.
    pub(crate) fn follow(&self, message: &WatchResponse) -> Option<(EngineEvent, bool)> {
        let token = self.watches.get(message.watch_id)?;
        let followed = self.table.change(token, |record| {
            let followed = record.follow(token, message);
            if matches!(record.phase, ClaimPhase::Granted) {
                self.watches.remove(message.watch_id);
            }
            followed
        });
        followed.flatten()
    }
}
