//! Carries commands out on a store: takes a step on what is known, and swaps; again, if another client was
//! faster.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::event::EventHandler;
use crate::engine::store::hearing::Hearing;
use crate::engine::store::keys::Keys;
use crate::engine::store::known::{Known, KnownLocks};
use crate::engine::store::listening::Listening;
use crate::engine::store::machine::{Command, Judge, Reply};
use crate::engine::store::observer::{Seen, ServerClock};
use crate::engine::store::record::{Record, Unreadable};
use crate::engine::store::schedule::Looks;
use crate::engine::store::turns::Turns;
use crate::engine::token::Token;
use crate::own_store::{Loaded, Store, StoreError, Swapped, Version};
use crate::process::ProcessId;
use crate::util::backoff::fraction;
use crate::util::clock::{Clock, Timestamp};
use crate::util::io_thread::IoThread;
use crate::util::panics::caught;
use crate::util::sync::Mutex;
use crate::util::time::{deadline_in, now};
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// A lock that was busy so recently probably still is.
const RECENT: Duration = Duration::from_secs(1);
/// The first pause after a conflict, which doubles, and how many times it does.
const PAUSE: Duration = Duration::from_millis(1);
const DOUBLINGS: u32 = 6;
/// How many times what is urgent is tried again without a pause.
const URGENT_TRIES: u32 = 3;

pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) io: IoThread,
    pub(crate) clock: Clock,
    pub(crate) handler: EventHandler,
    pub(crate) keys: Keys,
    pub(crate) known: KnownLocks,
    pub(crate) server_clock: Mutex<ServerClock>,
    pub(crate) listening: Arc<Listening>,
    pub(crate) process: ProcessId,
    /// The claims that wait.
    pub(crate) waiting: Mutex<HashMap<Token, Looks>>,
    pub(crate) hearing: Hearing,
    pub(crate) turns: Turns,
}

/// What a command begins with.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Start {
    /// The lock is probably free, unless it was busy a moment ago: an insertion, or a write on the idle
    /// record that is known.
    New,
    /// The last reply.
    Known,
}

impl Core {
    /// Carries a command out.
    pub(crate) async fn run(
        &self,
        name: &Arc<str>,
        command: Command,
        start: Start,
        deadline: Instant,
    ) -> Result<Reply, EngineError> {
        let _turn = self.turns.take(self.io, name).await;
        let mut known = self.known.get(name);
        let now = self.clock.now();
        let is_recent = |sent: Timestamp| now.elapsed_since(sent) < RECENT;
        if start == Start::New && !known.record.is_idle() && !known.sent.is_some_and(is_recent) {
            // A conflict shows what there is.
            (known.version, known.sent) = (None, None);
            known.record = Record::default();
        }
        self.run_on(name, known, false, command, deadline).await
    }

    /// Carries a command out. `has_looked`: what is known was looked up for it.
    pub(crate) async fn run_on(
        &self,
        name: &Arc<str>,
        known: Known,
        has_looked: bool,
        command: Command,
        deadline: Instant,
    ) -> Result<Reply, EngineError> {
        let done = self.carry_out(name, known, has_looked, command, deadline);
        match done.await {
            // Whoever has overwritten the record has ended all claims on the lock.
            Err(error) if is_foreign(&error) => without_a_claim(command).ok_or(error),
            done => done,
        }
    }

    async fn carry_out(
        &self,
        name: &Arc<str>,
        mut known: Known,
        mut has_looked: bool,
        command: Command,
        deadline: Instant,
    ) -> Result<Reply, EngineError> {
        let asks = matches!(command, Command::Try(_) | Command::Wait(_));
        let loads_the_present = self.store.loads_the_present();
        if !has_looked && self.server_clock.lock().is_stale(self.clock.now()) {
            self.load(name, &mut known, deadline).await?;
            has_looked = true;
        }
        // A conflict shows the present, too.
        let mut is_present = has_looked && loads_the_present;
        let mut doubt = Doubt::default();
        let mut tries = 0;
        loop {
            let mut record = known.record.clone();
            let judge = self.judge(&known);
            let reply = record.step(&judge, command);
            let may_come = self.known.may_come(name, &known.version);
            if may_come && known.version.is_none() {
                record.stay(judge.clock());
            }
            if record == known.record && !may_come {
                // Whoever asks for a lock that looks busy asks again.
                let suffices = has_looked && asks && !doubt.exists;
                if is_present || suffices {
                    return Ok(doubt.resolve(reply));
                }
                if !has_looked {
                    let loaded = self.load(name, &mut known, deadline).await;
                    loaded.map_err(|error| doubt.of(error))?;
                    (has_looked, is_present) = (true, loads_the_present);
                    continue;
                }
            }
            let stays = !record.is_idle() || record.keep;
            let bytes = stays.then(|| record.encode(Uuid::new_v4().into_bytes()));
            let swapped = self.swap(name, &mut known, bytes.as_deref(), deadline);
            match swapped.await {
                Ok(None) => {
                    self.known.settle(name, record.keep);
                    let now = self.clock.now();
                    known.observer.note(&record, now);
                    self.ring(&known.record, &record);
                    known.record = record;
                    self.known.put(name, known, now);
                    return Ok(doubt.resolve(reply));
                }
                Ok(Some((found, sent))) => {
                    let taken = self.take_in(name, &mut known, found, sent);
                    taken.map_err(|error| doubt.of(error))?;
                    (has_looked, is_present) = (true, true);
                    // The first time at once. Later, what is known would be old after the pause.
                    if tries == 0 || is_urgent(command) && tries <= URGENT_TRIES {
                        tries += 1;
                        continue;
                    }
                }
                Err(error) if error.kind == EngineErrorKind::Indeterminate => doubt.add(reply),
                Err(error) => return Err(doubt.of(error)),
            }
            self.pause(tries, deadline).await?;
            let loaded = self.load(name, &mut known, deadline).await;
            loaded.map_err(|error| doubt.of(error))?;
            (has_looked, is_present) = (true, loads_the_present);
            tries += 1;
        }
    }

    /// Waits after that number of tries, while there is time.
    pub(crate) async fn pause(&self, tries: u32, deadline: Instant) -> Result<(), EngineError> {
        if now() >= deadline {
            return Err(EngineError::no_reply());
        }
        let most = PAUSE * (1 << tries.min(DOUBLINGS));
        self.io.sleep_until(deadline_in(fraction(most))).await;
        Ok(())
    }

    /// Returns the time until the server's clock shows that time, if what it shows is known.
    pub(crate) fn time_until(&self, micros: u64) -> Option<Duration> {
        let latest = self.server_clock.lock().latest(self.clock.now())?;
        Some(Duration::from_micros(micros.saturating_sub(latest)))
    }

    /// Deletes a record that remembers nothing any more.
    pub(crate) async fn sweep(&self, name: &Arc<str>, known: &Known, deadline: Instant) {
        let clock = self.judge(known).clock();
        if let Some(version) = known
            .version
            .as_ref()
            .filter(|_| known.record.is_forgotten(clock))
        {
            let _ = self.replace(name, Some(version), None, deadline).await;
        }
    }

    pub(crate) fn judge<'a>(&self, known: &'a Known) -> Seen<'a> {
        Seen {
            observer: &known.observer,
            now: self.clock.now(),
            time: known.time,
            clock: *self.server_clock.lock(),
        }
    }

    /// Reads the record of a lock.
    pub(crate) async fn load(
        &self,
        name: &Arc<str>,
        known: &mut Known,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let sent = self.clock.now();
        let loaded = self.look(name, deadline).await?;
        self.take_in(name, known, loaded, sent)
    }

    /// Returns what is there instead of the version that is known, if it is not, and when that was asked.
    async fn swap(
        &self,
        name: &Arc<str>,
        known: &mut Known,
        bytes: Option<&[u8]>,
        deadline: Instant,
    ) -> Result<Option<(Loaded, Timestamp)>, EngineError> {
        let (sent, expected) = (self.clock.now(), known.version.clone());
        // Also if this future is dropped.
        self.known.begin_swap(name, &expected);
        let swapped = self.replace(name, expected.as_ref(), bytes, deadline).await;
        if !matches!(&swapped, Err(error) if error.kind == EngineErrorKind::Indeterminate) {
            self.known.end_swap(name, &expected);
        }
        match swapped? {
            Swapped::Done(version) => {
                known.version = bytes.is_some().then_some(version);
                known.sent = Some(sent);
                Ok(None)
            }
            Swapped::Conflict(found) => Ok(Some((found, sent))),
        }
    }

    fn take_in(
        &self,
        name: &Arc<str>,
        known: &mut Known,
        loaded: Loaded,
        sent: Timestamp,
    ) -> Result<(), EngineError> {
        let time = self.note_time(&loaded, sent);
        let (record, version) = match loaded.found {
            Some((bytes, version)) => (Record::decode(&bytes).map_err(unreadable)?, Some(version)),
            None => (Record::default(), None),
        };
        (known.record, known.version, known.time) = (record, version, time);
        known.sent = Some(sent);
        known.observer.note(&known.record, self.clock.now());
        self.known.put(name, known.clone(), self.clock.now());
        Ok(())
    }

    /// Reads a record.
    pub(crate) async fn look(&self, name: &str, deadline: Instant) -> Result<Loaded, EngineError> {
        self.by(deadline, async { self.store.load(name).await })
            .await
    }

    /// Learns the server's time, if it says so in a reply to what was sent then.
    pub(crate) fn note_time(&self, loaded: &Loaded, sent: Timestamp) -> Option<u64> {
        let time = loaded.at.map(|at| at.as_micros() as u64);
        self.server_clock.lock().note(time, sent);
        time
    }

    /// Replaces a record.
    pub(crate) async fn replace(
        &self,
        name: &str,
        expected: Option<&Version>,
        record: Option<&[u8]>,
        deadline: Instant,
    ) -> Result<Swapped, EngineError> {
        let swap = async { self.store.swap(name, expected, record).await };
        self.by(deadline, swap).await
    }

    /// Replaces what is there, whatever that is.
    pub(crate) async fn rewrite(
        &self,
        name: &str,
        record: impl Fn(&Loaded) -> Vec<u8>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let mut present = self.look(name, deadline).await?;
        loop {
            let record = record(&present);
            let version = present.found.map(|(_, version)| version);
            let replaced = self.replace(name, version.as_ref(), Some(&record), deadline);
            match replaced.await? {
                Swapped::Done(_) => return Ok(()),
                Swapped::Conflict(found) => present = found,
            }
            self.pause(1, deadline).await?;
        }
    }

    pub(crate) async fn names(
        &self,
        prefix: &str,
        most: usize,
        deadline: Instant,
    ) -> Result<Vec<String>, EngineError> {
        let names = async { self.store.names(prefix, most).await };
        self.by(deadline, names).await
    }

    /// Awaits a reply of the store, which may panic.
    async fn by<T>(
        &self,
        deadline: Instant,
        reply: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, EngineError> {
        match caught(self.io.timeout_at(deadline, reply)).await {
            Ok(Ok(reply)) => reply.map_err(failed),
            Ok(Err(_)) => Err(EngineError::no_reply()),
            Err(_) => Err(failed(StoreError::unknown("the store panicked"))),
        }
    }
}

/// Whether a swap of the present command may have been carried out although it had no reply.
#[derive(Default)]
struct Doubt {
    exists: bool,
    /// It was the holder's then.
    held: bool,
}

impl Doubt {
    /// Adds a swap without a reply, after which the command would have had that one.
    fn add(&mut self, reply: Reply) {
        let held = matches!(
            reply,
            Reply::Left { held: true } | Reply::Number { held: true, .. }
        );
        (self.exists, self.held) = (true, self.held | held);
    }

    /// Returns the reply of the command as a whole.
    fn resolve(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Left { held } => Reply::Left {
                held: held | self.held,
            },
            Reply::Number { held, number } => Reply::Number {
                held: held | self.held,
                number,
            },
            reply => reply,
        }
    }

    /// Returns the error of the command as a whole.
    fn of(&self, error: EngineError) -> EngineError {
        match self.exists {
            true => EngineError {
                kind: EngineErrorKind::Indeterminate,
                ..error
            },
            false => error,
        }
    }
}

/// What leaves, or may lose its lease, does not wait for others.
fn is_urgent(command: Command) -> bool {
    matches!(command, Command::Leave(_) | Command::Renew(_))
}

fn failed(error: StoreError) -> EngineError {
    let kind = match error {
        StoreError::NotDone(_) => EngineErrorKind::NotReady,
        StoreError::Denied(_) => EngineErrorKind::Rejected,
        StoreError::Unknown(_) => EngineErrorKind::Indeterminate,
    };
    EngineError {
        kind,
        source: error.reason().clone(),
    }
}

/// Returns `true` if another program has written the record.
pub(crate) fn is_foreign(error: &EngineError) -> bool {
    error.source.downcast_ref() == Some(&Unreadable::Foreign)
}

/// Returns the reply to a command whose claim is not there, unless it is one that makes a claim.
fn without_a_claim(command: Command) -> Option<Reply> {
    match command {
        Command::Renew(_) | Command::Downgrade(..) | Command::Number(..) => Some(Reply::NotHeld),
        Command::Leave(_) => Some(Reply::Left { held: false }),
        Command::Try(_) | Command::Wait(_) | Command::Take(..) => None,
    }
}

fn unreadable(error: Unreadable) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, error)
}
