//! A lock that is to be taken.

use crate::backoff::Backoff;
use crate::engine::Fault;
use crate::hold::{Hold, OnLost, Terms};
use crate::io::after;
use crate::locked::Locked;
use crate::manager::Shared;
use crate::trace::Trace;
use crate::{LockError, LockGuard};
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
    terms: Terms,
}

impl Lock {
    pub(crate) fn new(shared: Option<Arc<Shared>>, template: &'static str, key: String) -> Lock {
        Lock {
            shared,
            template,
            key,
            ttl: None,
            wait: None,
            terms: Terms {
                renew: true,
                max_hold: None,
                on_lost: OnLost::Cancel,
            },
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
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// Whether the lease is renewed while the guard lives. If not, it ends after the ttl. By default
    /// it is.
    pub fn renew(mut self, renew: bool) -> Self {
        self.terms.renew = renew;
        self
    }

    /// What [`run`](Self::run) does with a body whose lease is lost. By default it is cancelled.
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.terms.on_lost = on_lost;
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
        if let Some(max_hold) = self.terms.max_hold {
            check_time("max_hold", max_hold)?;
        }
        Ok(Request {
            name: shared.name_of(&self.key),
            template: self.template,
            ttl,
            wait: self.wait.unwrap_or(shared.wait),
            terms: self.terms,
            asked: Instant::now(),
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
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

/// A lock that has been asked for.
struct Request {
    shared: Arc<Shared>,
    name: Arc<str>,
    template: &'static str,
    ttl: Duration,
    wait: Duration,
    terms: Terms,
    asked: Instant,
}

impl Request {
    /// One question to the server, repeated only if it could not be put.
    async fn once(&self) -> Result<Option<LockGuard>, LockError> {
        let until = after(self.shared.command_timeout);
        self.attempt(until, false).await
    }

    async fn wait_for_it(&self) -> Result<LockGuard, LockError> {
        let shared = &self.shared;
        let until = after(self.wait);
        if !shared.waiters.are_waiting(&self.name)
            && let Some(guard) = self.attempt(until, false).await?
        {
            return Ok(guard);
        }
        let mut place = shared.waiters.join(&self.name);
        if shared.io.timeout_at(until, place.turn()).await.is_err() {
            return Err(self.busy());
        }
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        loop {
            if let Some(guard) = self.attempt(until, true).await? {
                return Ok(guard);
            }
            let next = Instant::now() + backoff.pause();
            if next >= until {
                drop(place);
                shared.io.sleep_until(until).await;
                return Err(self.busy());
            }
            let _ = shared.io.timeout_at(next, place.freed()).await;
        }
    }

    /// Asks until there is an answer: the lock, or none if it is somebody else's. If it was known to
    /// be `held`, running out of time in mid-question says nothing new.
    async fn attempt(&self, until: Instant, held: bool) -> Result<Option<LockGuard>, LockError> {
        let shared = &self.shared;
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        loop {
            if shared.is_closed() {
                return Err(LockError::ShuttingDown { key: self.key() });
            }
            // A new token for every attempt. From here on, dropping the guard releases it.
            let guard = LockGuard::new(Hold::new(
                shared.clone(),
                self.name.clone(),
                self.ttl,
                self.terms,
                Trace::new(self.template),
            ));
            let sent = shared.clock.now();
            let patience = after(shared.command_timeout);
            let answer = shared
                .engine
                .acquire(&guard.hold.claim, patience.min(until));
            let error = match answer.await {
                Ok(true) if guard.hold.granted(sent) => {
                    let key = guard.key();
                    guard.hold.trace.started(key, self.asked.elapsed());
                    return Ok(Some(guard));
                }
                // The answer took longer than the lease it brought.
                Ok(true) => None,
                Ok(false) => {
                    guard.hold.refused();
                    return Ok(None);
                }
                Err(error) => {
                    if error.fault != Fault::Unanswered {
                        guard.hold.refused();
                    }
                    Some(error)
                }
            };
            let next = Instant::now() + backoff.pause();
            if let Some(error) = error {
                let cut_short = until < patience && error.fault == Fault::Unanswered;
                if held && cut_short {
                    return Ok(None);
                }
                let in_vain = self.wait.is_zero() && error.fault == Fault::Down;
                if in_vain || next >= until || !error.is_transient() {
                    return Err(shared.unavailable(&guard.hold.claim, error));
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
                false => self.asked.elapsed(),
            },
        }
    }

    fn key(&self) -> Arc<str> {
        self.shared.key_of(&self.name).into()
    }
}

fn check_key(key: &str) -> Result<(), LockError> {
    const LONGEST: usize = 512 * 1024 * 1024 - 1024;

    let reason = if key.is_empty() {
        "it is empty; check what it is made of"
    } else if key.len() > LONGEST {
        "it is longer than the 512 MB that Redis allows"
    } else if key.starts_with("::") {
        "keys that begin with `::` are reserved for the bookkeeping of locks"
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
