//! The options of a lock, and their limits.

use crate::error::LockError;
use crate::limit::Limit;
use crate::util::clock::without_margin;
use std::collections::HashSet;
use std::time::Duration;

/// What a process reports: see [`Config::report`](crate::Config::report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Report {
    /// Nothing. Its locks show its [`process_id`](crate::LockManager::process_id) alone.
    Off,
    /// Soon after its first lock, and each minute as long as it uses any.
    #[default]
    Periodic,
    /// And at once when another process asks, from the beginning: it listens although it has not waited for a
    /// lock yet, nor held one until its renewal. On Redis and PostgreSQL, that is one connection more.
    Live,
}

/// The options of one acquire call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockOptions {
    pub(crate) limit: Limit,
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// The lock is held for at least that long, even if the body ends earlier.
    pub(crate) min_hold: Option<Duration>,
    /// The number of waiting callers of this process with which no further caller waits.
    pub(crate) max_waiters: Option<usize>,
    /// A nested call runs under the hold of the body that makes it.
    pub(crate) reentrant: bool,
    /// The call acquires several locks. Its waits for them add up, so it passes no waiter of another process.
    pub(crate) is_of_several: bool,
    pub(crate) on_lost: OnLost,
    pub(crate) release: ReleaseMode,
    pub(crate) replicas: u32,
}

impl LockOptions {
    /// Returns the options of a lock that is renewed, and of which nothing else is asked.
    pub(crate) fn new(limit: Limit, ttl: Duration) -> LockOptions {
        LockOptions {
            limit,
            ttl,
            renew: true,
            max_hold: None,
            min_hold: None,
            max_waiters: None,
            reentrant: false,
            is_of_several: false,
            on_lost: OnLost::default(),
            release: ReleaseMode::default(),
            replicas: 0,
        }
    }

    /// Returns `true` if the lock may stay with the process.
    pub(crate) fn is_lazy(self) -> bool {
        self.release == ReleaseMode::Lazy
    }
}

/// The reaction to the loss of a lease while the body runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLost {
    /// The body is canceled at its next await point, and the call fails with
    /// [`LockError::Lost`](crate::LockError::Lost).
    #[default]
    Cancel,
    /// The body continues. It must check its [`LockGuard`](crate::LockGuard) before irreversible steps.
    Continue,
}

/// How a call ends the lock after its body has returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseMode {
    /// The call returns once the server has confirmed the release, or the command timeout has passed.
    #[default]
    Confirmed,
    /// The call returns once the release has been sent. The library awaits the reply in the background;
    /// [`shutdown`](crate::shutdown) waits for it.
    Background,
    /// The lock stays with this process until another one waits for it, or its lease is due for renewal:
    /// about a third of the ttl after it was acquired. Until then the next call of this process for the key
    /// begins without a request to the server. If the lock can't stay, the release is
    /// [`Confirmed`](Self::Confirmed).
    ///
    /// This counts for guards held by hand, too: dropping one keeps the lock, and
    /// [`release`](crate::LockGuard::release) returns at once.
    ///
    /// **Who gains.** Work that is routed by its key, such as the consumer of a partition, or the worker of a
    /// tenant: where two of three calls come to the process that had the call before. Others lose by it,
    /// since a call for a lock that another process keeps takes about twice as long: the waiter recalls the
    /// lock, and then acquires it. A lock that was recalled before its third such call is not kept again for
    /// a third of the ttl, so processes that alternate pay that once in this time.
    ///
    /// **What it costs.** If the process crashes or is stopped *between* calls, others wait for the rest of
    /// the ttl, as they do otherwise only if that happens within a body.
    /// [`try_acquire`](crate::Lock::try_acquire) elsewhere, calls that wait for no time, and clients that
    /// don't know the queue recall nothing: they find the lock held while no body uses it, and nearly always
    /// if the calls of this process follow each other closely. A lock that is kept is not renewed, so it
    /// stays for about a third of the ttl after it was acquired. [`shutdown`](crate::LockManager::shutdown),
    /// the end of the manager, and the return of the `main` that has connected it, give all of them back; a
    /// process that ends by [`std::process::exit`] on another thread leaves them to their ttl.
    ///
    /// It works on all engines but SQLite and stores without [bells](crate::store::Bells). There it is a
    /// confirmed release, and on PostgreSQL behind a pooler, where several servers of MySQL or MariaDB accept
    /// writes, and for names of more than 1,000 bytes on PostgreSQL, and 2,048 on etcd and ZooKeeper.
    /// [`Config::max_kept`](crate::Config::max_kept) limits the number of locks that stay. None stays without
    /// [local handoff](crate::Config::local_handoff).
    ///
    /// A call with [`read`](crate::Lock::read), with [`permits`](crate::Lock::permits) above 1, for several
    /// keys, with [`min_hold`](crate::Lock::min_hold) or without [renewal](crate::Lock::renew) is refused as
    /// [`InvalidOption`](crate::LockError::InvalidOption).
    ///
    /// ```
    /// use lock_runtime::{LockError, LockManager, ReleaseMode};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// for message in ["first", "second"] {
    ///     let partition = locks.lock("partition:7").release_mode(ReleaseMode::Lazy);
    ///     partition.run(async |_| println!("{message}")).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    Lazy,
}

/// The greatest number of keys of one call. Each is renewed on its own, several times within its lease.
const MAX_KEYS: usize = 1000;

/// Checks the keys of one call.
pub(crate) fn validate_keys(keys: &[String]) -> Result<(), LockError> {
    if keys.is_empty() {
        return Err(no_keys());
    }
    if keys.len() > MAX_KEYS && keys.iter().collect::<HashSet<_>>().len() > MAX_KEYS {
        return Err(LockError::InvalidOption {
            option: "key",
            reason: "the list has more than 1000 keys, whose renewals may take longer than their leases; name fewer, \
                     or lock what they have in common",
        });
    }
    keys.iter().try_for_each(|key| validate_key(key))
}

/// Returns the error of a call without any key.
pub(crate) fn no_keys() -> LockError {
    LockError::InvalidKey {
        key: "".into(),
        reason: "the list of keys is empty; name at least one",
    }
}

pub(crate) fn validate_key(key: &str) -> Result<(), LockError> {
    const MAX_KEY_LEN: usize = 512 * 1024 * 1024 - 1024;

    let reason = if key.is_empty() {
        "it is empty; check the values that it is built from"
    } else if key.len() > MAX_KEY_LEN {
        "it is longer than the 512 MB that Redis allows; shorten it"
    } else if key.starts_with(':') {
        "keys that begin with `:` are reserved; choose another first character"
    } else {
        return Ok(());
    };
    Err(invalid_key(key, reason))
}

pub(crate) fn invalid_key(key: &str, reason: &'static str) -> LockError {
    LockError::InvalidKey {
        key: key.chars().take(64).collect::<String>().into(),
        reason,
    }
}

pub(crate) fn validate_duration(option: &'static str, duration: Duration) -> Result<(), LockError> {
    const MIN_DURATION: Duration = Duration::from_millis(10);
    const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    let reason = if duration < MIN_DURATION {
        "it is shorter than 10 ms; raise it"
    } else if duration > MAX_DURATION {
        "it is longer than 365 days; lower it"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidOption { option, reason })
}

/// Returns the limit of a lock with that mode and number of permits.
pub(crate) fn validate_limit(read: bool, permits: Option<u32>) -> Result<Limit, LockError> {
    let invalid = |reason| LockError::InvalidOption {
        option: "permits",
        reason,
    };
    match (read, permits) {
        (true, Some(_)) => Err(invalid(
            "a reader shares the lock with any number of readers; leave it out",
        )),
        (true, None) => Ok(Limit::UNLIMITED),
        (false, None) => Ok(Limit::EXCLUSIVE),
        (false, Some(permits)) => Limit::permits(permits)
            .ok_or_else(|| invalid("it is not between 1 and 2046; choose a number in this range")),
    }
}

pub(crate) fn validate_min_hold(
    min_hold: Option<Duration>,
    max_hold: Option<Duration>,
    (ttl, renew): (Duration, bool),
) -> Result<(), LockError> {
    let Some(min_hold) = min_hold else {
        return Ok(());
    };
    validate_duration("min_hold", min_hold)?;
    if max_hold.is_some_and(|max_hold| max_hold < min_hold) {
        return Err(LockError::InvalidOption {
            option: "min_hold",
            reason: "it is longer than `max_hold`; lower it",
        });
    }
    if !renew && without_margin(ttl) < min_hold {
        return Err(LockError::InvalidOption {
            option: "min_hold",
            reason: "it is longer than the lease, `ttl` less 1 % and 2 ms, which is not renewed; lower it, or raise `ttl`",
        });
    }
    Ok(())
}

/// Checks that what is released lazily can be kept for the next call.
pub(crate) fn validate_release(options: &LockOptions) -> Result<(), LockError> {
    if !options.is_lazy() {
        return Ok(());
    }
    let reason = if options.limit == Limit::UNLIMITED {
        "a reader's lock is not kept for the next call (`lazy`); choose another mode, or leave out `read`"
    } else if !options.limit.is_exclusive() {
        "a permit is not kept for the next call (`lazy`); choose another mode, or leave out `permits`"
    } else if options.is_of_several {
        "the locks of several keys are not kept for the next call (`lazy`); choose another mode, or name one key"
    } else if options.min_hold.is_some() {
        "`min_hold` keeps the lock from the next call, and `lazy` keeps it for that call; leave out one of them"
    } else if !options.renew {
        "a lock that is not renewed is not kept for the next call (`lazy`), which would have the rest of its `ttl`; \
         leave out one of them"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidOption {
        option: "release",
        reason,
    })
}
