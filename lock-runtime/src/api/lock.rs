//! A lock that is to be taken.

use crate::api::guard::LockGuard;
use crate::api::guarded::Locked;
use crate::api::manager::Shared;
use crate::engine::error::{EngineError, Fault};
use crate::engine::token::Token;
use crate::error::LockError;
use crate::lock::hold::Hold;
use crate::lock::lease::Lease;
use crate::lock::local_queue::Wish;
use crate::options::{OnLost, Release, Terms};
use crate::util::backoff::Backoff;
use crate::util::io_thread::{after, instant, since};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A lock that is to be taken, and how. [`LockManager::lock`](crate::LockManager::lock) makes one.
///
/// ```
/// # use lock_runtime::{LockError, LockManager};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// # let locks = LockManager::connect("memory://").await?;
/// let receipt = locks
///     .lock("order:42")
///     .ttl(Duration::from_secs(30))
///     .wait(Duration::from_secs(2))
///     .run(async |_| "shipped")
///     .await?;
/// assert_eq!(receipt, "shipped");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock is not taken before `acquire`, `try_acquire` or `run`"]
pub struct Lock {
    shared: Option<Arc<Shared>>,
    template: &'static str,
    key: String,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    renew: bool,
    max_hold: Option<Duration>,
    on_lost: OnLost,
    release: Option<Release>,
    replicas: Option<u32>,
}

impl Lock {
    pub(crate) fn new(shared: Option<Arc<Shared>>, template: &'static str, key: String) -> Lock {
        Lock {
            shared,
            template,
            key,
            ttl: None,
            wait: None,
            renew: true,
            max_hold: None,
            on_lost: OnLost::Cancel,
            release: None,
            replicas: None,
        }
    }

    /// The lease: how long the lock outlives a holder that crashed. A living holder renews it at a
    /// third of this. From 10 ms to a hundred years; the manager's default is 30 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait for the lock, an outage of the server included. [`Duration::ZERO`] tries
    /// once, [`Duration::MAX`] waits for ever. The manager's default is 5 s.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The longest time the lock may be held, whatever happens: then renewing ends and the lease
    /// counts as lost. By default there is none.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Whether the lease is renewed while the guard lives. If not, it ends after the ttl. By default
    /// it is.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// What [`run`](Self::run) does with a body whose lease is lost. By default it is cancelled.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Whether [`run`](Self::run) waits for the release. By default as the manager's
    /// [`Config`](crate::Config) says, which is [`Release::Confirmed`].
    pub fn release(mut self, release: Release) -> Self {
        self.release = Some(release);
        self
    }

    /// How many replicas must have acknowledged the lock before it counts as had, and each renewal
    /// before it counts. The manager's default is none.
    ///
    /// A Redis master answers before its replicas have heard of a lock. When it dies in that moment, a
    /// replica that is promoted grants the lock a second time. With one replica or more that is
    /// unlikely: a failover prefers the replica that has heard most. It is not ruled out: `WAIT`, by
    /// which this is done, says what replicas have, and not which of them will be promoted. What must
    /// never be done twice is guarded by the [`fencing_token`](crate::LockGuard::fencing_token).
    ///
    /// Taking and renewing cost one more round trip, from the master to its replicas. While too few
    /// of them answer, the lock is [`Unavailable`](LockError::Unavailable), and what was had before is
    /// lost when its lease runs out. In a quorum they are the replicas of each member, and a member with
    /// too few does not count. The embedded engine has no replicas, and needs none.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Takes the lock, waiting for it as long as allowed.
    ///
    /// Cancel safe: a dropped future leaves the line of waiters, and a lock that it may have got
    /// already is released.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`] if somebody else held the lock all the time, [`LockError::Unavailable`]
    /// if the server gave no answer in that time, [`LockError::InvalidKey`] and
    /// [`LockError::InvalidOption`] before anything is sent, [`LockError::ShuttingDown`] after
    /// [`shutdown`](crate::LockManager::shutdown).
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let request = self.check()?;
        match request.wait.is_zero() {
            true => request.once().await?.ok_or_else(|| request.busy()),
            false => request.wait_for_it().await,
        }
    }

    /// Takes the lock if it is free: none if somebody else holds it.
    ///
    /// ```
    /// # use lock_runtime::{LockError, LockManager};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let locks = LockManager::connect("memory://").await?;
    /// let Some(_guard) = locks.lock("nightly").try_acquire().await? else {
    ///     return Ok(()); // another replica does it
    /// };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), but for `Busy`.
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        self.wait(Duration::ZERO).check()?.once().await
    }

    /// Takes the lock, runs the body under it and releases it. The body is cancelled at its next
    /// await point when the lease is lost.
    ///
    /// The same as the attribute does, for a block instead of a function: the lock is released
    /// before this returns, and also if the body panics or the future is dropped. An error of the
    /// release never replaces the body's value.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), and [`LockError::Lost`] if the body was cancelled.
    pub async fn run<T>(self, body: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let guard = self.acquire().await?;
        Locked::new(&guard, body(&guard)).await
    }

    fn check(self) -> Result<Request, LockError> {
        let shared = self.shared.ok_or(LockError::NotInitialised)?;
        let ttl = self.ttl.unwrap_or(shared.ttl);
        check_key(&self.key)?;
        check_time("ttl", ttl)?;
        if let Some(max_hold) = self.max_hold {
            check_time("max_hold", max_hold)?;
        }
        Ok(Request {
            name: shared.name_of(&self.key),
            wait: self.wait.unwrap_or(shared.wait),
            wish: Wish {
                terms: Terms {
                    ttl,
                    renew: self.renew,
                    max_hold: self.max_hold,
                    on_lost: self.on_lost,
                    release: self.release.unwrap_or(shared.release),
                    replicas: self.replicas.unwrap_or(shared.replicas),
                },
                template: self.template,
                asked: instant(),
            },
            shared,
        })
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("key", &self.key)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

/// A lock that has been asked for.
struct Request {
    shared: Arc<Shared>,
    name: Arc<str>,
    wait: Duration,
    wish: Wish,
}

impl Request {
    /// One question to the server, repeated only if it could not be put.
    async fn once(&self) -> Result<Option<LockGuard>, LockError> {
        if self.shared.waiters.is_taken(&self.name) {
            return Ok(None);
        }
        self.attempt(after(self.shared.command_timeout)).await
    }

    async fn wait_for_it(&self) -> Result<LockGuard, LockError> {
        let shared = &self.shared;
        let until = after(self.wait);
        if !shared.waiters.has_line(&self.name)
            && let Some(guard) = self.attempt(until).await?
        {
            return Ok(guard);
        }
        let mut place = shared.waiters.join(shared, &self.name, self.wish);
        if let Ok(seated) = shared.io.timeout_at(until, &mut place).await {
            return seated;
        }
        // Asked while the place is still taken: an empty line knows nothing.
        match shared.waiters.trouble(&self.name) {
            Some(trouble) => Err(self.unavailable(trouble)),
            None => Err(self.busy()),
        }
    }

    /// Asks until there is an answer: the lock, or none if it is somebody else's.
    async fn attempt(&self, until: Instant) -> Result<Option<LockGuard>, LockError> {
        let shared = &self.shared;
        let terms = self.wish.terms;
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        let mut shortage = None;
        loop {
            if shared.is_closed() {
                return Err(LockError::ShuttingDown { key: self.key() });
            }
            // A new token for every attempt.
            let token = Token::fresh();
            let hold = Hold::new(shared.clone(), self.name.clone(), token, terms);
            let mut attempt = Attempt(Some(hold.clone()));
            let claim = hold.claim();
            let sent = shared.clock.now();
            let patience = after(shared.command_timeout).min(until);
            let error = match shared.engine.acquire(&claim, patience).await {
                Ok(true) if hold.granted(terms, Lease::new(sent, terms.ttl)) => {
                    attempt.0 = None;
                    return Ok(Some(LockGuard::new(hold, &self.wish)));
                }
                // The answer took longer than the lease it brought.
                Ok(true) => None,
                Ok(false) => {
                    hold.refused();
                    return Ok(None);
                }
                Err(error) => {
                    if !matches!(error.fault, Fault::Unanswered | Fault::Unacknowledged) {
                        hold.refused();
                    }
                    Some(error)
                }
            };
            drop(attempt);
            let next = instant() + backoff.pause();
            if let Some(error) = error {
                let once = self.wait.is_zero();
                let in_vain = once && matches!(error.fault, Fault::Down | Fault::Unacknowledged);
                let transient = error.is_transient();
                if error.fault == Fault::Unacknowledged {
                    shortage = Some(error.clone());
                }
                if in_vain || next >= until || !transient {
                    // The last try, which has the least time, may not say as much.
                    return Err(self.unavailable(shortage.unwrap_or(error)));
                }
            } else if next >= until {
                return Ok(None);
            }
            shared.io.sleep_until(next).await;
        }
    }

    fn busy(&self) -> LockError {
        LockError::Busy {
            key: self.key(),
            waited: match self.wait.is_zero() {
                true => Duration::ZERO,
                false => since(self.wish.asked),
            },
        }
    }

    fn unavailable(&self, error: EngineError) -> LockError {
        self.shared.unavailable(&self.name, error)
    }

    fn key(&self) -> Arc<str> {
        self.shared.key_of(&self.name).into()
    }
}

/// A lock that has been asked for, and may have been had: dropped, it is given back.
struct Attempt(Option<Arc<Hold>>);

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            hold.abandon();
        }
    }
}

fn check_key(key: &str) -> Result<(), LockError> {
    const LONGEST: usize = 512 * 1024 * 1024 - 1024;

    let reason = if key.is_empty() {
        "it is empty; check what it is made of"
    } else if key.len() > LONGEST {
        "it is longer than the 512 MB that Redis allows"
    } else if key.starts_with(':') {
        "keys that begin with `:` are reserved for the bookkeeping of locks"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidKey {
        key: key.chars().take(64).collect::<String>().into(),
        reason,
    })
}

pub(crate) fn check_time(option: &'static str, time: Duration) -> Result<(), LockError> {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

    let reason = if time < SHORTEST {
        "it is shorter than 10 ms, in which nothing can be done in time"
    } else if time > LONGEST {
        "it is longer than a hundred years"
    } else {
        return Ok(());
    };
    Err(LockError::InvalidOption { option, reason })
}
