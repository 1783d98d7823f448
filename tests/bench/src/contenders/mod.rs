//! The contenders, each in a file of its own.

mod async_redis_lock;
mod distkit;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod foreign;
pub mod mysql;
pub mod ours;
mod polled;
pub mod postgres;
pub mod quorum;
pub mod raw;
mod rlock;
pub mod rslock;
pub mod zookeeper;

use crate::child;
use crate::load::{Outcome, Plan, alternate, drive};
use foreign::Foreign;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The lease of every lock.
pub const TTL: Duration = Duration::from_secs(30);

/// The permits of every semaphore.
pub const PERMITS: u32 = 4;

/// The retry interval of contenders that wait by retrying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    Default,
    /// Every 10 ms, or 10 ms on average if the contender chooses at random.
    Tuned,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContenderKind {
    Raw,
    Ours,
    /// The same, with background releases.
    Background,
    /// The same, released lazily.
    Lazy,
    /// The same by the attribute.
    Attribute,
    /// The same, for reading.
    Read,
    /// The same, as a semaphore.
    Permits,
    /// A semaphore that polls.
    Polled(Retry),
    Rslock(Retry),
    Rlock(Retry),
    AsyncRedisLock(Retry),
    Distkit(Retry),
    /// A library for another language.
    Foreign(Foreign),
}

use Retry::{Default, Tuned};

/// All Rust contenders with their default settings. The others are compared with the first.
pub const FREE: [ContenderKind; 8] = [
    ContenderKind::Raw,
    ContenderKind::Ours,
    ContenderKind::Background,
    ContenderKind::Attribute,
    ContenderKind::Rslock(Default),
    ContenderKind::Rlock(Default),
    ContenderKind::AsyncRedisLock(Default),
    ContenderKind::Distkit(Default),
];

/// The Rust contenders that can wait.
pub const WAITING: [ContenderKind; 9] = [
    ContenderKind::Ours,
    ContenderKind::Rslock(Tuned),
    ContenderKind::Rlock(Tuned),
    ContenderKind::AsyncRedisLock(Tuned),
    ContenderKind::Distkit(Tuned),
    ContenderKind::Rslock(Default),
    ContenderKind::Rlock(Default),
    ContenderKind::AsyncRedisLock(Default),
    ContenderKind::Distkit(Default),
];

/// The contenders whose holders share a lock.
const SHARED: [ContenderKind; 4] = [
    ContenderKind::Read,
    ContenderKind::Permits,
    ContenderKind::Polled(Tuned),
    ContenderKind::Polled(Default),
];

impl ContenderKind {
    pub fn is_peer(self) -> bool {
        !matches!(
            self,
            ContenderKind::Raw
                | ContenderKind::Ours
                | ContenderKind::Background
                | ContenderKind::Lazy
                | ContenderKind::Attribute
                | ContenderKind::Read
                | ContenderKind::Permits
        )
    }

    pub fn by_name(name: &str) -> Option<ContenderKind> {
        FREE.into_iter()
            .chain(WAITING)
            .chain(SHARED)
            .chain([ContenderKind::Lazy])
            .find(|contender| contender.to_string() == name)
    }

    /// Returns the command that starts a process of the contender.
    pub fn command(self, core: Option<usize>) -> Command {
        match self {
            ContenderKind::Foreign(foreign) => foreign.language().command(core),
            _ => child::command(core),
        }
    }

    pub async fn connect(self, url: &str) -> Box<dyn AnyContender> {
        match self {
            ContenderKind::Raw => enter::<raw::Raw>(url, Default).await,
            ContenderKind::Ours => enter::<ours::Ours>(url, Default).await,
            ContenderKind::Background => enter::<ours::Background>(url, Default).await,
            ContenderKind::Lazy => enter::<ours::Lazy>(url, Default).await,
            ContenderKind::Attribute => enter::<ours::Attribute>(url, Default).await,
            ContenderKind::Read => enter::<ours::Read>(url, Default).await,
            ContenderKind::Permits => enter::<ours::Permits>(url, Default).await,
            ContenderKind::Polled(retry) => enter::<polled::Polled>(url, retry).await,
            ContenderKind::Rslock(retry) => enter::<rslock::Rslock>(url, retry).await,
            ContenderKind::Rlock(retry) => enter::<rlock::Rlock>(url, retry).await,
            ContenderKind::AsyncRedisLock(retry) => {
                enter::<async_redis_lock::AsyncRedisLock>(url, retry).await
            }
            ContenderKind::Distkit(retry) => enter::<distkit::Distkit>(url, retry).await,
            ContenderKind::Foreign(_) => panic!("`{self}` is another program"),
        }
    }
}

impl fmt::Display for ContenderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, retry) = match *self {
            ContenderKind::Raw => ("raw", Default),
            ContenderKind::Ours => ("lock-runtime", Default),
            ContenderKind::Background => ("lock-runtime-background", Default),
            ContenderKind::Lazy => ("lock-runtime-lazy", Default),
            ContenderKind::Attribute => ("lock-runtime-attribute", Default),
            ContenderKind::Read => ("lock-runtime-read", Default),
            ContenderKind::Permits => ("lock-runtime-permits", Default),
            ContenderKind::Polled(retry) => ("polled-semaphore", retry),
            ContenderKind::Rslock(retry) => ("rslock", retry),
            ContenderKind::Rlock(retry) => ("rlock", retry),
            ContenderKind::AsyncRedisLock(retry) => ("async-redis-lock", retry),
            ContenderKind::Distkit(retry) => ("distkit", retry),
            ContenderKind::Foreign(foreign) => foreign.parts(),
        };
        let tuned = match retry {
            Default => "",
            Tuned => "@10ms",
        };
        f.pad(&format!("{name}{tuned}"))
    }
}

/// A lock implementation. Any failure panics: a measurement would be meaningless then.
pub trait Contender: Sized + Send + Sync + 'static {
    type Hold: Send;

    /// `true` if a lock has several holders. Their bodies do not occupy a core to end at a precise instant.
    const SHARED: bool = false;

    fn connect(url: &str, retry: Retry) -> impl Future<Output = Self> + Send;
    fn acquire(&self, key: &str) -> impl Future<Output = Self::Hold> + Send;
    fn release(&self, hold: Self::Hold) -> impl Future<Output = ()> + Send;

    /// Runs a body under a lock.
    fn run<T: Send>(
        &self,
        key: &str,
        body: impl Future<Output = T> + Send,
    ) -> impl Future<Output = T> + Send {
        async {
            let hold = self.acquire(key).await;
            let value = body.await;
            self.release(hold).await;
            value
        }
    }
}

async fn enter<C: Contender>(url: &str, retry: Retry) -> Box<dyn AnyContender> {
    Box::new(Arc::new(C::connect(url, retry).await))
}

/// Connects a contender.
pub type Connect = fn(&str) -> BoxFuture<'_, Box<dyn AnyContender>>;

/// Connects a contender that is only known by its type.
pub fn connect<C: Contender>(url: &str) -> BoxFuture<'_, Box<dyn AnyContender>> {
    Box::pin(enter::<C>(url, Default))
}

/// A type-erased contender.
pub trait AnyContender: Send + Sync {
    fn drive(&self, plan: Plan) -> BoxFuture<'_, Outcome>;

    fn alternate(&self, turn: u64, passes: u64, rest: Duration) -> BoxFuture<'_, Vec<Duration>>;
}

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<C: Contender> AnyContender for Arc<C> {
    fn drive(&self, plan: Plan) -> BoxFuture<'_, Outcome> {
        Box::pin(drive(self, plan))
    }

    fn alternate(&self, turn: u64, passes: u64, rest: Duration) -> BoxFuture<'_, Vec<Duration>> {
        Box::pin(alternate(self, turn, passes, rest))
    }
}
