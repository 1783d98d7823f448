//! The requests of locks, each of which is one transaction or two.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::etcd::claims::{Claims, End, Ending, Known, Record, value_of};
use crate::engine::etcd::client::Client;
use crate::engine::etcd::connection::Connection;
use crate::engine::etcd::failure::Failure;
use crate::engine::etcd::keys::Keys;
use crate::engine::etcd::leases::{LeaseUse, Leases};
use crate::engine::etcd::line::{Line, Place};
use crate::engine::etcd::messages::{
    Compare, KeyValue, PutRequest, RequestOp, TxnRequest, TxnResponse, WatchCancel, WatchCommand,
    WatchCreate, WatchResponse,
};
use crate::engine::etcd::txn;
use crate::engine::event::EventHandler;
use crate::engine::request::{Claim, EnqueueReply, QueueStatus, ServerTime};
use crate::engine::retry::Retry;
use crate::engine::timeouts::OUTAGE;
use crate::engine::token::Token;
use crate::util::clock::{Clock, Timestamp};
use crate::util::join_all::join_all;
use crate::util::time::{deadline_in, now, sleep_until, timeout_at};
use prost::bytes::Bytes;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// How often a request is repeated at once when the line has changed meanwhile.
const MAX_ROUNDS: u32 = 8;

/// The greatest number of keys that one transaction looks at: servers allow 128 operations.
const MAX_LOOKS: usize = 100;

/// The end of the holder's lease is told, so no claim needs to ask because of it.
const TOLD: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Core {
    pub(super) client: Arc<Client>,
    pub(super) leases: Arc<Leases>,
    pub(super) claims: Arc<Claims>,
    pub(super) keys: Keys,
    pub(super) clock: Clock,
    pub(super) started: Timestamp,
    pub(super) handler: EventHandler,
}

/// What a transaction found that writes a claim's key.
struct Written {
    succeeded: bool,
    revision: i64,
    keys: Vec<KeyValue>,
}

fn not_ready(words: &'static str) -> EngineError {
    EngineError::new(EngineErrorKind::NotReady, words)
}

impl Core {
    /// Enters the line if the claim holds the lock at once. Returns `false` if it would have to wait.
    pub(super) async fn acquire(&self, claim: &Claim) -> Result<bool, EngineError> {
        let Some(record) = self.claims.find(claim.token) else {
            return Ok(false);
        };
        let _turn = record.turn.lock().await;
        if self.claims.find_open(claim.token).is_none() {
            return Err(not_ready("the claim has ended"));
        }
        let since = self.clock.now();
        let acquired = self.take(claim).await;
        match &acquired {
            Ok(true) => {
                self.claims.hold(claim.token, since, claim.ttl);
            }
            Err(error) if error.kind == EngineErrorKind::Indeterminate => {}
            // The supervisor ends it if the caller has left.
            _ if self.claims.find_open(claim.token).is_some() => self.claims.forget(claim.token),
            _ => {}
        }
        acquired
    }

    async fn take(&self, claim: &Claim) -> Result<bool, EngineError> {
        let (line, limit) = (self.keys.line(&claim.name), claim.token.limit());
        let mut seen: Option<i64> = None;
        for _ in 0..MAX_ROUNDS {
            let lease = self.share_lease(claim).await?;
            let Some(record) = self.claims.find(claim.token) else {
                return Ok(false);
            };
            let key = &record.slot.key;
            let room = match seen {
                None => txn::is_empty(line.clone()),
                Some(revision) => txn::is_unchanged(line.clone(), revision),
            };
            let compare = vec![room, txn::is_absent(key.clone())];
            let read = txn::range(line.clone());
            let Some(written) = self.write(claim, &lease, compare, None, read).await? else {
                continue;
            };
            if written.succeeded {
                return Ok(true);
            }
            let line = Line::new(written.keys, written.revision);
            if !line.has_room_for(limit) {
                return Ok(false);
            }
            if line.value_of(key).is_some() {
                self.claims.move_on(claim, &record.slot);
            }
            seen = Some(written.revision);
        }
        Err(not_ready("other clients change the lock all the time"))
    }

    /// Enters the line, or looks at the claim's place in it.
    pub(super) async fn enqueue(&self, claim: &Claim) -> Result<EnqueueReply, EngineError> {
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(EnqueueReply::Stale);
        };
        let _turn = record.turn.lock().await;
        for _ in 0..MAX_ROUNDS {
            let lease = self.share_lease(claim).await?;
            let Some(record) = self.claims.find_open(claim.token) else {
                return Ok(EnqueueReply::Stale);
            };
            let since = self.clock.now();
            let (key, value) = (&record.slot.key, value_of(claim.token));
            let range = self.keys.line(&claim.name);
            let connection = self.client.connection().await?;
            let compare = vec![txn::is_absent(key.clone())];
            let read = txn::range(range.clone());
            let also = Some(read.clone());
            let Some(written) = self.write(claim, &lease, compare, also, read).await? else {
                continue;
            };
            let line = Line::new(written.keys, written.revision);
            match line.place_of(key, &value) {
                Some(Place::Holds) => {
                    if !self.claims.hold(claim.token, since, claim.ttl) {
                        return Ok(EnqueueReply::Stale);
                    }
                    return Ok(match written.succeeded {
                        true => EnqueueReply::Granted(claim.ttl),
                        false => EnqueueReply::AlreadyHeld(claim.ttl),
                    });
                }
                Some(place) => {
                    self.follow(claim.token, line, &connection, range);
                    return Ok(self.queued(place));
                }
                // Another client has written to this key.
                None => self.claims.move_on(claim, &record.slot),
            }
        }
        Err(not_ready("other clients change the lock all the time"))
    }

    /// Returns what is known of a waiting claim without a request.
    pub(super) fn known(&self, claim: &Claim) -> Option<EnqueueReply> {
        match self.claims.known(claim.token) {
            Known::Granted => {
                let open = self.claims.hold(claim.token, self.clock.now(), claim.ttl);
                open.then_some(EnqueueReply::AlreadyHeld(claim.ttl))
            }
            Known::Waits(place) => Some(self.queued(place)),
            Known::Nothing => None,
        }
    }

    fn queued(&self, place: Place) -> EnqueueReply {
        let (position, has_others) = match place {
            Place::Holds => (0, false),
            Place::Waits { ahead, has_others } => (ahead, has_others),
        };
        EnqueueReply::Queued(QueueStatus {
            server_time: ServerTime(self.clock.now().elapsed_since(self.started)),
            holder_ttl: TOLD,
            position,
            has_others,
        })
    }

    /// Watches a line in which a claim waits.
    fn follow(
        &self,
        token: Token,
        line: Line,
        connection: &Arc<Connection>,
        (key, range_end): (Bytes, Bytes),
    ) {
        self.stop_watching(token);
        let start_revision = line.revision() + 1;
        let watch_id = self.claims.wait(token, line, connection);
        connection.watch(WatchCommand::Create(WatchCreate {
            key,
            range_end,
            start_revision,
            watch_id,
        }));
    }

    fn stop_watching(&self, token: Token) {
        if let Some(watch) = self.claims.watch_of(token) {
            self.cancel_watch(watch);
        }
    }

    fn cancel_watch(&self, watch_id: i64) {
        if let Some(connection) = self.client.present() {
            connection.watch(WatchCommand::Cancel(WatchCancel { watch_id }));
        }
    }

    /// Tells the claim what its watch reports.
    pub(super) fn on_watch(&self, message: &WatchResponse) {
        let Some((event, is_done)) = self.claims.follow(message) else {
            return;
        };
        if !message.canceled && is_done {
            self.cancel_watch(message.watch_id);
        }
        // Unless the history was compacted, the server has refused the watch: its user may have to log in again.
        if message.canceled
            && message.compact_revision == 0
            && let Some(connection) = self.client.present()
        {
            connection.end();
        }
        (self.handler)(event);
    }

    /// Returns the claim's share in a lease, which is new if it has none, or if that has ended.
    async fn share_lease(&self, claim: &Claim) -> Result<Arc<LeaseUse>, EngineError> {
        let record = self.claims.find(claim.token);
        let present = record.and_then(|record| record.leases.last().cloned());
        if let Some(lease) = present.filter(|it| !it.lease().is_lost() && it.fits(claim.ttl)) {
            return Ok(lease);
        }
        let lease = self.leases.join(claim.ttl).await?;
        self.claims.set_leases(claim.token, vec![lease.clone()]);
        Ok(lease)
    }

    /// Writes the claim's key if that is true and the session is this connection's, and then also reads `also`; reads
    /// `read` otherwise. Returns `None` if the lease has ended.
    async fn write(
        &self,
        claim: &Claim,
        lease: &LeaseUse,
        compare: Vec<Compare>,
        also: Option<RequestOp>,
        read: RequestOp,
    ) -> Result<Option<Written>, EngineError> {
        let Some(record) = self.claims.find(claim.token) else {
            return Err(not_ready("the claim has ended"));
        };
        let put = PutRequest {
            key: record.slot.key.clone(),
            value: value_of(claim.token),
            lease: lease.lease().id,
            ignore_lease: false,
        };
        let answer = self.write_in_session(compare, put, also, read).await;
        match answer {
            Err(failure) if failure.is_lost_lease() => {
                self.leases.lose(lease.lease());
                Ok(None)
            }
            answer => answer.map(Some).map_err(Failure::into_engine_error),
        }
    }

    async fn write_in_session(
        &self,
        mut compare: Vec<Compare>,
        put: PutRequest,
        also: Option<RequestOp>,
        read: RequestOp,
    ) -> Result<Written, Failure> {
        let connection = self.client.connection().await;
        let connection = connection.map_err(|error| Failure::not_sent(error.to_string()))?;
        let session = connection.session();
        let (key, value) = session.ok_or_else(|| Failure::not_sent("there is no session"))?;
        compare.push(txn::has_value(key.clone(), value.clone()));
        let txn = TxnRequest {
            compare,
            success: std::iter::once(txn::put(put)).chain(also).collect(),
            failure: vec![txn::get(key), read],
        };
        let answer = connection.txn(&txn).await?;
        let (succeeded, revision) = (answer.succeeded, answer.revision());
        let mut ranges = answer.ranges();
        if !succeeded {
            let session = ranges.next().and_then(|mut keys| keys.pop());
            if session.is_none_or(|found| found.value != value) {
                connection.end();
                return Err(Failure::not_sent("the session was closed"));
            }
        }
        let keys = ranges.next().unwrap_or_default();
        Ok(Written {
            succeeded,
            revision,
            keys,
        })
    }

    /// Executes a transaction that does no harm if it is executed late.
    async fn execute(&self, txn: TxnRequest) -> Result<TxnResponse, EngineError> {
        let connection = self.client.connection().await?;
        let answer = connection.txn(&txn).await;
        answer.map_err(Failure::into_engine_error)
    }

    /// Begins to end a claim, if that has not begun: it leaves the line, whether it waits or holds the lock. Returns
    /// `None` if there is no such claim.
    pub(super) fn end(self: &Arc<Self>, token: Token) -> Option<watch::Receiver<Ending>> {
        self.stop_watching(token);
        let End { ending, begun } = self.claims.end(token)?;
        if let Some((sender, record)) = begun {
            let core = self.clone();
            self.client
                .io
                .spawn_detached(async move { core.finish(token, &record, &sender).await });
        }
        Some(ending)
    }

    /// Deletes the claim's key, and repeats that until the server has answered.
    async fn finish(&self, token: Token, before: &Record, sender: &watch::Sender<Ending>) {
        let _turn = before.turn.lock().await;
        // The turn before may have moved it.
        let record = self.claims.find(token).unwrap_or_else(|| before.clone());
        let (mut retry, mut may_have_run) = (Retry::default(), false);
        let give_up = deadline_in(OUTAGE);
        let ended = loop {
            let (key, value) = (&record.slot.key, value_of(token));
            let delete = TxnRequest {
                compare: vec![txn::has_value(key.clone(), value)],
                success: vec![txn::delete(key.clone())],
                failure: Vec::new(),
            };
            match self.execute(delete).await {
                Ok(answer) => break answer.succeeded || may_have_run,
                Err(error) => {
                    may_have_run |= error.kind == EngineErrorKind::Indeterminate;
                    let pause = retry.pause_after(&error);
                    sender.send_replace(Ending::Failed(error));
                    if now() >= give_up {
                        break may_have_run;
                    }
                    sleep_until(deadline_in(pause)).await;
                    let _ = timeout_at(give_up, self.client.until_connected()).await;
                }
            }
        };
        self.claims.forget(token);
        sender.send_replace(Ending::Done(ended));
    }

    /// Looks whether the claims are still in line, and keeps their leases alive.
    pub(super) async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool, EngineError>> {
        let since = self.clock.now();
        let records: Vec<_> = claims
            .iter()
            .map(|claim| self.claims.find_open(claim.token))
            .collect();
        let moves = claims
            .iter()
            .zip(&records)
            .map(async |(claim, record)| match record {
                Some(record) if !record.leases.iter().all(|lease| lease.fits(claim.ttl)) => {
                    self.move_to_lease(claim, record).await
                }
                _ => Ok(()),
            });
        let moved = join_all(moves).await;
        let chunks = claims.chunks(MAX_LOOKS).zip(records.chunks(MAX_LOOKS));
        let looks = chunks.map(|(claims, records)| self.look(claims, records));
        let looks = join_all(looks).await;
        let refreshed = join_all(claims.iter().map(async |claim| {
            let record = self.claims.find_open(claim.token);
            let leases = record.map(|record| record.leases).unwrap_or_default();
            let refresh = |lease: Arc<LeaseUse>| async move {
                self.leases.refresh(lease.lease(), claim.ttl).await
            };
            let refreshed = join_all(leases.into_iter().map(refresh)).await;
            refreshed.into_iter().collect::<Result<(), EngineError>>()
        }));
        let refreshed = refreshed.await;
        let answers = looks
            .into_iter()
            .flatten()
            .zip(moved.into_iter().zip(refreshed));
        let answers = claims.iter().zip(answers);
        let answer = |(claim, (found, (moved, refreshed))): (&Claim, _)| {
            let found: Result<bool, EngineError> = found;
            if !found? {
                return Ok(false);
            }
            moved?;
            refreshed?;
            Ok(self.claims.hold(claim.token, since, claim.ttl))
        };
        answers.map(answer).collect()
    }

    /// Returns for each claim whether its key is there.
    async fn look(
        &self,
        claims: &[Claim],
        records: &[Option<Record>],
    ) -> Vec<Result<bool, EngineError>> {
        let known = records.iter().flatten();
        let looks = TxnRequest {
            success: known
                .map(|record| txn::get(record.slot.key.clone()))
                .collect(),
            ..TxnRequest::default()
        };
        let answer = match looks.success.is_empty() {
            true => Ok(Vec::new()),
            false => self
                .execute(looks)
                .await
                .map(|answer| answer.ranges().collect()),
        };
        let found = match answer {
            Ok(found) => found,
            Err(error) => return claims.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut found = found.into_iter();
        let is_there = |(claim, record): (&Claim, &Option<Record>)| {
            let keys: Vec<KeyValue> = match record {
                Some(_) => found.next().unwrap_or_default(),
                None => return Ok(false),
            };
            let value = value_of(claim.token);
            Ok(keys.iter().any(|kv| kv.value == value))
        };
        claims.iter().zip(records).map(is_there).collect()
    }

    /// Attaches the claim's key to a lease of its new ttl.
    async fn move_to_lease(&self, claim: &Claim, record: &Record) -> Result<(), EngineError> {
        let _turn = record.turn.lock().await;
        let lease = self.leases.join(claim.ttl).await?;
        // Until the answer is there it can be either.
        let mut leases = record.leases.clone();
        leases.push(lease.clone());
        self.claims.set_leases(claim.token, leases);
        let key = &record.slot.key;
        let compare = vec![txn::has_value(key.clone(), value_of(claim.token))];
        let written = self
            .write(claim, &lease, compare, None, txn::get(key.clone()))
            .await?;
        if written.is_some_and(|written| written.succeeded) {
            self.claims.set_leases(claim.token, vec![lease]);
        }
        Ok(())
    }

    /// Draws a number greater than all before it, if the claim holds the lock.
    pub(super) async fn fencing_token(&self, claim: &Claim) -> Result<Option<u64>, EngineError> {
        let Some(record) = self.claims.find_open(claim.token) else {
            return Ok(None);
        };
        // Every write has a revision greater than all before it.
        let fence = PutRequest {
            key: self.keys.fence(),
            ..PutRequest::default()
        };
        let draw = TxnRequest {
            compare: vec![txn::has_value(
                record.slot.key.clone(),
                value_of(claim.token),
            )],
            success: vec![txn::put(fence)],
            failure: Vec::new(),
        };
        let answer = self.execute(draw).await?;
        let revision = u64::try_from(answer.revision()).ok();
        Ok(revision.filter(|_| answer.succeeded))
    }

    /// Puts the token `to`, which has been added, under the claim's key, which keeps its place. Returns `false` if the
    /// claim does not hold the lock.
    pub(super) async fn downgrade(&self, claim: &Claim, to: Token) -> Result<bool, EngineError> {
        let Some(record) = self.claims.find_open(to) else {
            return Err(not_ready("the claim has ended"));
        };
        let _turn = record.turn.lock().await;
        if self.claims.find_open(to).is_none() {
            return Err(not_ready("the claim has ended"));
        }
        if self.claims.find_open(claim.token).is_none() {
            // An earlier try may have done it.
            return Ok(self.claims.is_held(to));
        }
        let since = self.clock.now();
        let key = &record.slot.key;
        let put = PutRequest {
            key: key.clone(),
            value: value_of(to),
            lease: 0,
            ignore_lease: true,
        };
        let compare = vec![txn::has_value(key.clone(), value_of(claim.token))];
        let read = txn::get(key.clone());
        let written = self.write_in_session(compare, put, None, read).await;
        let written = written.map_err(Failure::into_engine_error)?;
        let shares = written.keys.iter().any(|kv| kv.value == value_of(to));
        if !written.succeeded && !shares {
            return Ok(false);
        }
        let open = self.claims.hold(to, since, claim.ttl);
        self.claims.forget(claim.token);
        Ok(open)
    }
}

/// Ends the claims whose time is over.
pub(super) async fn end_what_is_over(core: Weak<Core>) {
    loop {
        let Some(strong) = core.upgrade() else {
            return;
        };
        let (over, next) = strong.claims.over(strong.clock.now());
        for token in over {
            strong.end(token);
        }
        let claims = strong.claims.clone();
        drop(strong);
        let changed = claims.changed.notified();
        match next {
            Some(next) => drop(timeout_at(next, changed).await),
            // Without a claim, it looks now and then whether the engine is still there.
            None => drop(timeout_at(deadline_in(Duration::from_secs(30)), changed).await),
        }
    }
}

/// Waits for the end of a claim. Returns `true` if the claim was in line.
pub(super) async fn ended(
    mut ending: watch::Receiver<Ending>,
    io: crate::util::io_thread::IoThread,
    deadline: tokio::time::Instant,
) -> Result<bool, EngineError> {
    let mut last = None;
    loop {
        match &*ending.borrow_and_update() {
            Ending::Done(was_there) => return Ok(*was_there),
            Ending::Failed(error) if !error.is_retryable() => return Err(error.clone()),
            Ending::Failed(error) => last = Some(error.clone()),
            Ending::Begun => {}
        }
        match io.timeout_at(deadline, ending.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => pending().await,
            Err(_) => break,
        }
    }
    // It continues, and may be carried out.
    let words = "the server did not answer in time".to_owned();
    let words = last.map_or(words, |error| error.to_string());
    Err(EngineError::new(EngineErrorKind::Indeterminate, words))
}
