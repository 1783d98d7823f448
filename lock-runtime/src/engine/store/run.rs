//! Carries commands out on a store: takes a step on what is known, and swaps; again, if another client was
//! faster.

use crate::engine::common::batches::{Request, deadline_of};
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::store::access::{LONGEST, LONGEST_OF_MANY, is_foreign};
use crate::engine::store::core::Core;
use crate::engine::store::errand::{Errand, Start, without_a_claim};
use crate::engine::store::known::Known;
use crate::engine::store::machine::{Command, Judge, Reply};
use crate::engine::store::observer::Seen;
use crate::engine::store::record::Record;
use crate::engine::token::Token;
use crate::util::clock::{Timestamp, without_margin};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// A lock that was busy so recently probably still is.
const RECENT: Duration = Duration::from_secs(1);
/// How many times what is urgent is tried again without a pause.
const URGENT_TRIES: u32 = 3;

type Batch = Vec<Request<Errand, Reply>>;

impl Core {
    /// Carries a command out.
    pub(crate) async fn run(
        self: &Arc<Self>,
        name: &Arc<str>,
        command: Command,
        start: Start,
        deadline: Instant,
    ) -> Result<Reply, EngineError> {
        let errand = Errand {
            command,
            start,
            held: false,
        };
        let (core, of) = (self.clone(), name.clone());
        let carry_out = |batch| core.carry_out(of, batch);
        let request = self
            .errands
            .request(self.io, name, errand, deadline, carry_out);
        request.await
    }

    async fn carry_out(self: Arc<Self>, name: Arc<str>, mut batch: Batch) {
        let mut in_doubt = false;
        match self.replies(&name, &mut batch, &mut in_doubt).await {
            Ok(replies) => {
                for (request, reply) in batch.into_iter().zip(replies) {
                    let reply = request.what.resolve(reply);
                    request.reply(Ok(reply));
                }
            }
            Err(mut error) => {
                let is_foreign = is_foreign(&error);
                if in_doubt {
                    error.kind = EngineErrorKind::Indeterminate;
                }
                for request in batch {
                    // Whoever has overwritten the record has ended all claims on the lock.
                    let ended = without_a_claim(request.what.command).filter(|_| is_foreign);
                    request.reply(ended.ok_or(error.clone()));
                }
            }
        }
    }

    /// Returns the replies to the requests whose callers have not left. `in_doubt` becomes `true` if a swap
    /// that had no reply may have been carried out.
    async fn replies(
        &self,
        name: &Arc<str>,
        batch: &mut Batch,
        in_doubt: &mut bool,
    ) -> Result<Vec<Reply>, EngineError> {
        let deadline = deadline_of(batch);
        // Who leaves makes room for those who ask.
        batch.sort_by_key(|it| it.what.command.asks());
        let mut known = self.begin(name, batch);
        let loads_the_present = self.store.loads_the_present();
        // Who leaves or renews does not wait for that.
        let looks = batch.iter().all(|it| it.what.command.asks())
            && batch
                .iter()
                .any(|it| matches!(it.what.start, Start::Look(_)));
        let mut has_looked = false;
        if looks || self.server_clock.lock().is_stale(self.clock.now()) {
            self.load(name, &mut known, deadline).await?;
            has_looked = true;
        }
        let (mut tries, mut pauses) = (0, false);
        loop {
            let doomed = self.doomed(&known, batch);
            if !doomed.is_empty() && !has_looked {
                self.load(name, &mut known, deadline).await?;
                has_looked = true;
                continue;
            }
            let ended = self.end_proofs(name, doomed, batch, deadline).await?;
            let may_be_inserted = self.known.may_come(name, &None);
            let may_come = may_be_inserted || self.known.may_come(name, &known.version);
            // Before the callers are looked at: who has left by then asks for nothing, and the release of who
            // leaves later finds that this may come. It stays if this future is dropped.
            self.known.begin_swap(name, &known.version);
            batch.retain(Request::is_awaited);
            if has_looked {
                self.reply_to_granted(&known.record, batch);
            }
            let mut record = known.record.clone();
            let judge = Seen {
                ended: &ended,
                ..self.judge(&known)
            };
            let step = |it: &Request<Errand, _>| record.step(&judge, it.what.command);
            let replies: Vec<_> = batch.iter().map(step).collect();
            if may_be_inserted {
                record.stay(judge.clock());
            }
            if batch.is_empty() || record == known.record && !may_come {
                // Whoever asks for a lock that looks busy asks again.
                let asks = |it: &Request<Errand, _>| it.what.command.asks();
                let suffices = has_looked && !*in_doubt && batch.iter().all(asks);
                let is_present = has_looked && loads_the_present;
                if batch.is_empty() || is_present || suffices {
                    self.known.end_swap(name, &known.version);
                    return Ok(replies);
                }
                if !has_looked {
                    self.known.end_swap(name, &known.version);
                    self.load(name, &mut known, deadline).await?;
                    has_looked = true;
                    continue;
                }
            }
            if std::mem::take(&mut pauses) {
                self.known.end_swap(name, &known.version);
                self.pause(tries, longest(batch), deadline).await?;
                // Only then, since what is known would be old after the pause.
                self.load(name, &mut known, deadline).await?;
                has_looked = true;
                continue;
            }
            let stays = !record.is_idle() || record.keep;
            let bytes = stays.then(|| record.encode(Uuid::new_v4().into_bytes()));
            let swapped = self.swap(name, &mut known, bytes.as_deref(), deadline);
            match swapped.await {
                Ok(None) => {
                    self.known.settle(name, &known.version, record.keep);
                    let now = self.clock.now();
                    known.observer.note(&record, now);
                    self.ring(&known.record, &record);
                    known.record = record;
                    self.known.put(name, known, now);
                    return Ok(replies);
                }
                Ok(Some((found, sent))) => {
                    self.take_in(name, &mut known, found, sent)?;
                    has_looked = true;
                    let is_urgent = batch.iter().any(|it| it.what.command.is_urgent());
                    if batch.iter().all(|it| it.what.command.asks()) {
                        // As many as wait may want the record, too.
                        let waiting = known.record.waiters.len().checked_ilog2();
                        tries = tries.max(waiting.map_or(0, |it| it + 1));
                    }
                    // The first time at once.
                    pauses = tries > if is_urgent { URGENT_TRIES } else { 0 };
                }
                Err(error) if error.kind == EngineErrorKind::Indeterminate => {
                    *in_doubt = true;
                    for (request, reply) in batch.iter_mut().zip(replies) {
                        request.what.doubt(reply);
                    }
                    let paused = self.pause(tries, longest(batch), deadline).await;
                    paused.map_err(|_| error)?;
                    self.load(name, &mut known, deadline).await?;
                    has_looked = true;
                }
                Err(error) => return Err(error),
            }
            tries += 1;
        }
    }

    /// Returns what a batch begins with.
    fn begin(&self, name: &Arc<str>, batch: &Batch) -> Known {
        let mut known = self.known.get(name);
        let now = self.clock.now();
        let is_recent = |sent: Timestamp| now.elapsed_since(sent) < RECENT;
        let is_new = batch.iter().all(|it| it.what.start == Start::New);
        if is_new && !known.record.is_idle() && !known.sent.is_some_and(is_recent) {
            // A conflict shows what there is.
            (known.version, known.sent) = (None, None);
            known.record = Record::default();
        }
        known
    }

    /// Replies to the claims that were served before. They need no write, and do not wait for one.
    fn reply_to_granted(&self, record: &Record, batch: &mut Batch) {
        let granted = |errand: &Errand| match errand.start {
            Start::Look(asked) => self.granted(record, errand.command.token(), asked),
            Start::New | Start::Known => None,
        };
        for request in std::mem::take(batch) {
            match granted(&request.what) {
                Some(left) => request.reply(Ok(Reply::Granted(left))),
                None => batch.push(request),
            }
        }
    }

    /// Returns the rest of a grant that came after a look that was sent then, so that the lease counts from
    /// there. It suffices until the first renewal, which confirms it.
    fn granted(&self, record: &Record, token: Token, asked: Timestamp) -> Option<Duration> {
        let granted = record.holder(token).filter(|it| it.granted)?;
        let ttl = Duration::from_millis(granted.ttl.into());
        let age = self.clock.now().elapsed_since(asked);
        let left = without_margin(ttl).saturating_sub(age);
        // Others may judge by the server's clock, from when the one before has begun to leave.
        let left = match granted.until {
            0 => left,
            until => left.min(without_margin(self.time_until(until)?)),
        };
        (self.store.loads_the_present() && left > ttl / 2).then_some(left)
    }
}

/// Returns the longest pause after a conflict.
fn longest(batch: &Batch) -> Duration {
    match batch.iter().all(|it| it.what.command.asks()) {
        true => LONGEST_OF_MANY,
        false => LONGEST,
    }
}
