//! A server that users bring: all that the library needs of it is to compare and swap.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// What a [`Store`] replies.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A server that keeps small records by their names, and replaces one only if it is still the one that was
/// read: a database, a key-value server, an object store.
///
/// [`Config::store`](crate::Config::store) makes all kinds of locks of it. A record is all that there is of a
/// lock: who holds it, and who waits for it, in their order. It has 77 bytes for a lock that is held, and 23
/// more for each process that waits, of which it names at most 128.
///
/// # What a store promises
///
/// - **A swap compares and writes in one step**, as of one moment between its call and its reply
///   ([linearizable](https://cs.brown.edu/~mph/HerlihyW90/p463-herlihy.pdf)). It has happened, or it has not.
/// - **Versions never come again** for a name, not even after its record was deleted and inserted again. A
///   counter in the row, which begins anew, does not suffice: [`Version::stamp_of`] the record does.
/// - **A record stays** until a swap deletes it: one that expires forgets who holds the lock.
/// - **Errors say whether a swap may have happened**, or may still: see [`StoreError`]. Whatever comes late
///   does no harm then.
///
/// The library drops a future when it gives up waiting for the reply. It calls a store from the threads of
/// its callers, and from one of its own, so a connection that needs a runtime is kept up by a task of the
/// store.
pub trait Store: Send + Sync + 'static {
    /// Reads a record. What it finds may be out of date.
    fn load<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Loaded>;

    /// Replaces the record of that version by the other one; `None` is no record. So it inserts one if there
    /// is none, or deletes one.
    fn swap<'a>(
        &'a self,
        name: &'a str,
        expected: Option<&'a Version>,
        record: Option<&'a [u8]>,
    ) -> StoreFuture<'a, Swapped>;

    /// Returns the names of records that begin with `prefix`, `most` of them at the most. Needed only to
    /// [list](crate::LockManager::list) locks and processes.
    fn names<'a>(&'a self, prefix: &'a str, most: usize) -> StoreFuture<'a, Vec<String>> {
        let _ = (prefix, most);
        let error = StoreError::denied("this store does not list its names");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Returns the bells by which processes wake one another. Without, whoever waits looks from time to time.
    fn bells(&self) -> Option<&dyn Bells> {
        None
    }

    /// Returns `true` if [`load`](Self::load) never shows what is out of date. A waiter whose turn it is then
    /// begins without another write.
    fn loads_the_present(&self) -> bool {
        false
    }
}

/// Bells by which processes wake one another. They are hints: one that is lost costs the first waiter half
/// a second at the most and others 1.75 s, or somewhat more if it recalls a
/// [kept](crate::ReleaseMode::Lazy) lock.
pub trait Bells: Send + Sync {
    /// Rings `bell`, from now on, whenever a process [rings](Self::ring) for that name, which is of lowercase
    /// letters and digits, and when [`hears`](Self::hears) becomes `false`. It does not block.
    fn listen(&self, name: &str, bell: Bell);

    /// Returns `true` if a bell for this process would be heard at present.
    fn hears(&self) -> bool;

    /// Rings for that name, for which another process may listen, or none. Does not wait.
    fn ring(&self, name: &str);
}

/// What [`Bells`] ring.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Identifies one state of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(Arc<[u8]>);

impl Version {
    /// Takes what the server identifies the state by, such as the number of its last change.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Version {
        Version(bytes.into())
    }

    /// Returns the stamp of a record: its first 16 bytes, which are random, and differ in all records.
    #[must_use]
    pub fn stamp_of(record: &[u8]) -> Version {
        Version::new(&record[..record.len().min(16)])
    }

    /// Returns what the version was made of.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a [`Store`] has found.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    pub(crate) found: Option<(Vec<u8>, Version)>,
    pub(crate) at: Option<Duration>,
}

impl Loaded {
    /// There is no record.
    #[must_use]
    pub fn nothing() -> Loaded {
        Loaded::default()
    }

    /// There is this one.
    pub fn found(record: impl Into<Vec<u8>>, version: Version) -> Loaded {
        Loaded {
            found: Some((record.into(), version)),
            at: None,
        }
    }

    /// Adds the server's time of day, since 1970, from before it replied. With it, a process that has just
    /// come knows when the lease of a dead holder ends; without, it observes the holder for a whole ttl.
    #[must_use]
    pub fn at(self, time: Duration) -> Loaded {
        Loaded {
            at: Some(time),
            ..self
        }
    }

    pub(crate) fn version(&self) -> Option<&Version> {
        self.found.as_ref().map(|(_, version)| version)
    }
}

/// What a swap came to.
#[derive(Clone, Debug)]
pub enum Swapped {
    /// It is done; the record has this version. A record that was deleted has any.
    Done(Version),
    /// It is not done, and this record is there, or `nothing`: mostly another one than was expected.
    Conflict(Loaded),
}

/// Why a [`Store`] has not replied as asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing has happened, and nothing will: there is no connection, or the server is too busy. It may
    /// work later.
    NotDone(Arc<dyn Error + Send + Sync>),
    /// Nothing has happened, and nothing will until a person has changed something, such as a permission.
    Denied(Arc<dyn Error + Send + Sync>),
    /// No reply came: a swap may have happened, or may still.
    Unknown(Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Returns an error of that kind.
    pub fn not_done(reason: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::NotDone(reason.into().into())
    }

    /// Returns an error of that kind.
    pub fn denied(reason: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::Denied(reason.into().into())
    }

    /// Returns an error of that kind.
    pub fn unknown(reason: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::Unknown(reason.into().into())
    }

    pub(crate) fn reason(&self) -> &Arc<dyn Error + Send + Sync> {
        match self {
            StoreError::NotDone(it) | StoreError::Denied(it) | StoreError::Unknown(it) => it,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason().source()
    }
}
