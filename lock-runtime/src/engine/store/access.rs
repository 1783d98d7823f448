//! Reads and replaces records.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::store::core::Core;
use crate::engine::store::known::Known;
use crate::engine::store::machine::Judge;
use crate::engine::store::record::{Record, Unreadable};
use crate::own_store::{Loaded, StoreError, Swapped, Version};
use crate::util::backoff::fraction;
use crate::util::clock::Timestamp;
use crate::util::panics::caught;
use crate::util::time::deadline_in;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The pause after the first conflict, which doubles, and the longest one; of those who ask for a lock, of
/// whom there may be any number.
const PAUSE: Duration = Duration::from_millis(1);
pub(crate) const LONGEST: Duration = Duration::from_millis(64);
pub(crate) const LONGEST_OF_MANY: Duration = Duration::from_millis(256);

impl Core {
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

    /// Waits after that number of tries; fails if there is no time for that.
    pub(crate) async fn pause(
        &self,
        tries: u32,
        longest: Duration,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let most = (PAUSE * (1 << tries.min(10))).min(longest);
        let end = deadline_in(fraction(most));
        if end >= deadline {
            let words = "other clients had the record as long as there was time";
            return Err(EngineError::new(EngineErrorKind::NotReady, words));
        }
        self.io.sleep_until(end).await;
        Ok(())
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

    /// Sends a swap that was recorded as begun. Returns what is there instead of the version that is known,
    /// if it is not, and when that was asked.
    pub(crate) async fn swap(
        &self,
        name: &Arc<str>,
        known: &mut Known,
        bytes: Option<&[u8]>,
        deadline: Instant,
    ) -> Result<Option<(Loaded, Timestamp)>, EngineError> {
        let (sent, expected) = (self.clock.now(), known.version.clone());
        let swapped = self.try_replace(name, expected.as_ref(), bytes, deadline);
        let swapped = swapped.await;
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

    pub(crate) fn take_in(
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

    /// Replaces a record. A conflict may show the expected one, if another client has it locked.
    async fn try_replace(
        &self,
        name: &str,
        expected: Option<&Version>,
        record: Option<&[u8]>,
        deadline: Instant,
    ) -> Result<Swapped, EngineError> {
        let swap = async { self.store.swap(name, expected, record).await };
        self.by(deadline, swap).await
    }

    /// Replaces a record. Fails if another client has it locked.
    pub(crate) async fn replace(
        &self,
        name: &str,
        expected: Option<&Version>,
        record: Option<&[u8]>,
        deadline: Instant,
    ) -> Result<Swapped, EngineError> {
        let replaced = self.try_replace(name, expected, record, deadline);
        match replaced.await? {
            Swapped::Conflict(found) if found.version() == expected => {
                let words = "another client has locked the record";
                Err(EngineError::new(EngineErrorKind::NotReady, words))
            }
            swapped => Ok(swapped),
        }
    }

    /// Replaces what is there, whatever that is.
    pub(crate) async fn rewrite(
        &self,
        name: &str,
        record: impl Fn(&Loaded) -> Vec<u8>,
        deadline: Instant,
    ) -> Result<(), EngineError> {
        let mut present = self.look(name, deadline).await?;
        for tries in 1.. {
            let record = record(&present);
            let replaced = self.try_replace(name, present.version(), Some(&record), deadline);
            match replaced.await? {
                Swapped::Done(_) => break,
                Swapped::Conflict(found) => present = found,
            }
            self.pause(tries, LONGEST, deadline).await?;
        }
        Ok(())
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
    pub(crate) async fn by<T>(
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

fn unreadable(error: Unreadable) -> EngineError {
    EngineError::new(EngineErrorKind::Rejected, error)
}
