//! One call: its body and its result.

use std::sync::Arc;
use std::time::Duration;

use lock_runtime::{LockError, LockGuard, LockManager, LostCause};

use super::{functions, set_aside, threads};
use crate::clock;
use crate::instructions::BodyLength;
use crate::journal::{CallKind, EventKind, Journal, Outcome, PRECISION};
use crate::resource::Account;
use lock_test_support::rng::Rng;
use lock_test_support::time::millis;

/// One call of a function.
#[derive(Clone)]
pub struct Call {
    pub locks: LockManager,
    pub journal: Arc<Journal>,
    pub number: u64,
    pub key: u32,
    /// `true` if the call leaves the lock to its process.
    pub lazy: bool,
    pub ttl: Duration,
    pub max_hold: Duration,
    pub wait: Duration,
    /// The longest time after which the call is dropped, if it is to be.
    pub patience: Duration,
    /// The account of each key.
    pub accounts: Vec<Account>,
    pub fenced: bool,
    /// `true` if the body, which nothing cancels, checks its guard before each step.
    pub asks: bool,
    /// `true` if the body only reads: it shares the lock with others.
    pub shares: bool,
    pub steps: Vec<Step>,
}

/// The part of a body between two awaits: it reads, computes and writes, and then awaits.
#[derive(Clone)]
pub struct Step {
    thinks: Duration,
    awaits: Duration,
}

/// How long a body runs without reading its guard.
const BEAT: Duration = millis(25);

#[derive(Debug)]
pub enum CallError {
    Lock(LockError),
    /// A single try found the lock taken.
    Busy,
    /// The resource has seen a later holder.
    Stale,
    OnPurpose,
}

impl From<LockError> for CallError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// Returns the steps of a body. A lease that is longer than usual does not make its body longer.
pub fn steps(
    kind: CallKind,
    ttl: Duration,
    length: Duration,
    pace: BodyLength,
    rng: &mut Rng,
) -> Vec<Step> {
    match pace {
        _ if kind == CallKind::Blocks => few_steps(kind, length, pace, rng),
        BodyLength::UpTo { ms } => small_steps(millis(rng.below(ms))),
        BodyLength::Lingering => small_steps(length * 5 / 4),
        BodyLength::Held { ms } => small_steps(millis(ms)),
        BodyLength::ByTtl => vec![Step {
            thinks: Duration::ZERO,
            awaits: match ttl > length {
                true => millis(550 + rng.below(250)),
                false => millis(rng.below(40)),
            },
        }],
        BodyLength::Mixed | BodyLength::Short => few_steps(kind, length, pace, rng),
    }
}

/// Returns the steps of a mostly short body; some need their lease to be renewed.
fn few_steps(kind: CallKind, length: Duration, pace: BodyLength, rng: &mut Rng) -> Vec<Step> {
    let long = kind == CallKind::MaxHold || (pace == BodyLength::Mixed && rng.one_in(25));
    let count = 1 + rng.below(4);
    let step = |_| Step {
        thinks: match kind {
            CallKind::Blocks => length.mul_f64(1.5) / count as u32,
            _ => Duration::from_micros(rng.below(3000)),
        },
        awaits: match long {
            true => length.mul_f64(rng.below(60) as f64 / 100.0),
            false => Duration::from_micros(rng.below(8000)),
        },
    };
    (0..count).map(step).collect()
}

fn is_asked(lock: &LockGuard) -> bool {
    let loss = lock.ensure_valid_for(Duration::ZERO);
    matches!(
        loss,
        Err(LockError::Lost {
            cause: LostCause::Revoked,
            ..
        })
    )
}

fn small_steps(time: Duration) -> Vec<Step> {
    let awaits = millis(4);
    let step = Step {
        thinks: Duration::ZERO,
        awaits,
    };
    vec![step; (time.as_nanos() / awaits.as_nanos()) as usize]
}

impl Call {
    pub async fn make(self, kind: CallKind, rng: &mut Rng) -> Outcome {
        let made = match kind {
            CallKind::TriesOnce if rng.one_in(2) => functions::tries(&self).await,
            CallKind::Waits | CallKind::TriesOnce | CallKind::Blocks => {
                functions::waits(&self).await
            }
            CallKind::ReleasesInBackground => functions::releases_in_background(&self).await,
            CallKind::Guard => functions::by_hand(&self, rng.one_in(2)).await,
            CallKind::ThenBlocks => functions::by_hand(&self, true).await,
            CallKind::Continues => functions::continues(&self).await,
            CallKind::Unrenewed => functions::unrenewed(&self).await,
            CallKind::MaxHold => functions::max_hold(&self).await,
            CallKind::Keeps | CallKind::Polls => functions::keeps(&self).await,
            CallKind::KeepsByHand => functions::keeps_by_hand(&self, rng.one_in(2)).await,
            CallKind::Nests => functions::nests(&self).await,
            CallKind::WaitsAlone => functions::waits_alone(&self).await,
            CallKind::Fails => functions::fails(&self).await,
            CallKind::Runs => functions::runs(&self).await,
            CallKind::Watches => functions::watches(&self).await,
            CallKind::Reads => functions::reads(&self).await,
            CallKind::ReadsByHand => functions::reads_by_hand(&self).await,
            CallKind::TwoPermits => functions::shares(&self, 2).await,
            CallKind::ThreePermits => functions::shares(&self, 3).await,
            CallKind::Downgrades => functions::downgrades(&self).await,
            CallKind::Downgraded => unreachable!("it is a part of a call"),
            CallKind::Transfers => functions::transfers(&self).await,
            CallKind::SetAside | CallKind::TransferSetAside => {
                let lock = match kind.is_of_several() {
                    true => functions::several(&self),
                    false => functions::lock(&self),
                };
                match set_aside::acquire(&self, lock, rng).await {
                    Ok(Some(guard)) => functions::watched(&self, guard).await,
                    Ok(None) => return Outcome::Dropped,
                    Err(error) => Err(error.into()),
                }
            }
            CallKind::OwnRuntime => threads::own_runtime(self, rng.split()).await,
            CallKind::ThreadLocal => threads::thread_local(self, rng.split()).await,
            CallKind::Panics => match tokio::spawn(functions::panics(self)).await {
                Ok(made) => made,
                Err(_) => return Outcome::Panicked,
            },
            CallKind::Dropped => {
                let patience = Duration::from_micros(rng.below(self.patience.as_micros() as u64));
                match tokio::time::timeout(patience, functions::waits(&self)).await {
                    Ok(made) => made,
                    Err(_) => return Outcome::Dropped,
                }
            }
        };
        match made {
            Ok(()) => Outcome::Done,
            Err(CallError::OnPurpose) => Outcome::Failed,
            Err(CallError::Busy) => Outcome::Busy,
            Err(CallError::Stale) => Outcome::Refused,
            Err(CallError::Lock(
                LockError::ShuttingDown { .. }
                | LockError::Lost {
                    cause: LostCause::ShutDown,
                    ..
                },
            )) => Outcome::ShutDown,
            Err(CallError::Lock(LockError::Lost {
                cause: LostCause::Revoked,
                ..
            })) => Outcome::Revoked,
            Err(CallError::Lock(error)) if error.is_busy() => Outcome::Busy,
            Err(CallError::Lock(error)) if error.is_lost() => Outcome::Lost,
            Err(CallError::Lock(error)) if error.is_unavailable() => Outcome::Unavailable,
            Err(CallError::Lock(error)) => Outcome::Wrong(error.to_string()),
        }
    }

    /// Runs the body under the lock.
    pub async fn body(&self, lock: &LockGuard) -> Result<(), CallError> {
        self.look(lock, |left| EventKind::Acquired { left });
        self.work(lock).await
    }

    /// Turns the exclusive lock into one that readers share, and runs the body again.
    pub async fn downgrade(&self, lock: LockGuard) -> Result<(), CallError> {
        self.look(&lock, |left| EventKind::Step { left });
        let requested = clock::now();
        let lock = lock.downgrade().await?;
        self.look(&lock, |left| EventKind::Downgraded { requested, left });
        let reader = Self {
            shares: true,
            ..self.clone()
        };
        reader.work(&lock).await
    }

    /// Runs the body again, in a nested call.
    pub async fn again(&self, lock: &LockGuard) -> Result<(), CallError> {
        self.look(lock, |left| EventKind::Step { left });
        self.work(lock).await
    }

    async fn work(&self, lock: &LockGuard) -> Result<(), CallError> {
        let token = match self.fenced {
            true => self.token(lock).await?,
            false => 0,
        };
        for (n, step) in self.steps.iter().enumerate() {
            if self.asks {
                lock.ensure_valid_for(Duration::ZERO)?;
            }
            if n > 0 || self.fenced {
                self.look(lock, |left| EventKind::Step { left });
            }
            self.write(token, step.thinks)?;
            if step.thinks > BEAT {
                self.look(lock, |left| EventKind::Step { left });
            }
            self.rest(lock, step.awaits).await;
        }
        if self.fenced {
            // The guard must return the same token as before.
            self.token(lock).await?;
        }
        Ok(())
    }

    /// Awaits for `time` and reads the guard repeatedly meanwhile, so that the end of the lease is known.
    async fn rest(&self, lock: &LockGuard, mut time: Duration) {
        while time > BEAT {
            tokio::time::sleep(BEAT).await;
            self.look(lock, |left| EventKind::Step { left });
            time -= BEAT;
        }
        tokio::time::sleep(time).await;
    }

    /// Records the remaining lease. The clocks are read first, so a lock that the guard then proves was held
    /// at that time, and a clock that is set between the two readings proves nothing. The guard is read less
    /// than [`PRECISION`] later.
    fn look(&self, lock: &LockGuard, what: impl FnOnce(u64) -> EventKind) {
        let (reading, left) = loop {
            let reading = clock::reading();
            let left = lock.remaining().as_nanos() as u64;
            // Otherwise the thread did not run in between, and a renewal may have been answered meanwhile.
            if clock::now() - reading.0 < PRECISION {
                break (reading, left);
            }
        };
        self.journal.write_at(reading, self.number, what(left));
        // Of several keys, only one may be wanted, and another one may have been lost.
        if self.accounts.len() == 1 && left == 0 && is_asked(lock) {
            self.journal
                .write_at(reading, self.number, EventKind::Asked);
        }
    }

    async fn token(&self, lock: &LockGuard) -> Result<u64, CallError> {
        let requested = clock::now();
        let token = lock.fencing_token().await?;
        self.journal
            .write(self.number, EventKind::Token { requested, token });
        Ok(token)
    }

    /// Reads and writes without an await, so that losing the lock cannot interrupt it.
    fn write(&self, token: u64, thinks: Duration) -> Result<(), CallError> {
        if self.shares {
            // Holders beside each other would overwrite each other's updates.
            std::thread::sleep(thinks);
            return Ok(());
        }
        let read = self.accounts.iter().map(|account| account.read(token));
        let read: Option<Vec<u64>> = read.collect();
        let read = read.ok_or(CallError::Stale)?;
        std::thread::sleep(thinks);
        let mut updates = self.accounts.iter().zip(read);
        match updates.all(|(account, read)| account.write(self.number, token, read)) {
            true => Ok(()),
            false => Err(CallError::Stale),
        }
    }
}
