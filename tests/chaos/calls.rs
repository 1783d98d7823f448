//! The functions that run under the locks, and what they write down.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::{LockError, LockGuard, LockManager, distributed_lock};
use tokio::sync::watch;

use crate::book::Account;
use crate::clock;
use crate::event::{How, Journal, Way, What};
use crate::support::dice::Dice;
use crate::support::time::millis;
use crate::worker::{Habit, Order, Pace, Stage};

pub const ON_PURPOSE: &str = "on purpose";

/// How long who waits for good does so at most.
const LONG: Duration = Duration::from_secs(60);

/// Makes the calls of one worker.
pub struct Caller {
    pub locks: LockManager,
    journal: Arc<Journal>,
    worker: u32,
    calls: AtomicU64,
    keys: u32,
    ttl: Duration,
    book: PathBuf,
    fenced: bool,
    habit: Habit,
}

/// One call of a function.
#[derive(Clone)]
struct Call {
    locks: LockManager,
    journal: Arc<Journal>,
    number: u64,
    key: u32,
    ttl: Duration,
    wait: Duration,
    account: Account,
    fenced: bool,
    /// Whether a body that nobody cancels asks its guard before each step.
    asks: bool,
    steps: Vec<Step>,
}

/// What a body does between two awaits: it reads, thinks, and writes; and how long it awaits then.
#[derive(Clone)]
struct Step {
    thinks: Duration,
    awaits: Duration,
}

#[derive(Debug)]
enum CallError {
    Lock(LockError),
    /// The resource knows of a later holder.
    Stale,
    OnPurpose,
}

impl From<LockError> for CallError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl Caller {
    pub fn new(order: &Order, worker: u32, journal: Arc<Journal>, locks: LockManager) -> Self {
        Self {
            locks,
            journal,
            worker,
            calls: AtomicU64::new(0),
            keys: order.keys,
            ttl: millis(order.ttl_ms),
            book: order.book.clone(),
            fenced: order.fenced,
            habit: order.habit.clone(),
        }
    }

    /// Calls one function after the other until another stage is reached.
    pub async fn call_during(
        self: Arc<Self>,
        now: Stage,
        stage: watch::Receiver<Stage>,
        mut dice: Dice,
    ) {
        while *stage.borrow() == now {
            let way = self.any_way(&mut dice);
            let key = dice.roll(u64::from(self.keys)) as u32;
            let wait = match self.habit.wait_ms {
                Some(wait) => millis(wait),
                None if dice.one_in(4) => LONG,
                None => millis(dice.roll(1000)),
            };
            let pace = self.habit.pace;
            self.call(way, key, wait, pace, &mut dice).await;
            tokio::time::sleep(millis(dice.roll(20))).await;
        }
    }

    /// Those that take long are rare among others.
    fn any_way(&self, dice: &mut Dice) -> Way {
        let ways = &self.habit.ways;
        let any = |dice: &mut Dice| ways[dice.roll(ways.len() as u64) as usize];
        match any(dice) {
            Way::Blocks | Way::MaxHold if !dice.one_in(5) => any(dice),
            way => way,
        }
    }

    pub async fn call_each_once(&self, dice: &mut Dice) {
        for key in 0..self.keys {
            self.call(Way::Waits, key, LONG, Pace::Short, dice).await;
        }
    }

    async fn call(&self, way: Way, key: u32, wait: Duration, pace: Pace, dice: &mut Dice) {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        let call = Call {
            locks: self.locks.clone(),
            journal: self.journal.clone(),
            number,
            key,
            ttl: self.ttl,
            wait: match way {
                Way::TriesOnce => Duration::ZERO,
                _ => wait,
            },
            account: Account::new(&self.book, self.worker, key),
            fenced: self.fenced,
            asks: way == Way::Continues,
            steps: match pace {
                Pace::Lingering => small_steps(self.ttl),
                _ => steps(way, self.ttl, pace, dice),
            },
        };
        let asked = What::Asked {
            key,
            way,
            ttl: call.ttl.as_nanos() as u64,
            wait: call.wait.as_nanos() as u64,
        };
        self.journal.write(number, asked);
        let how = call.make(way, dice).await;
        self.journal.write(number, What::Ended { how });
    }
}

/// Most bodies are short; some need their lease to be renewed.
fn steps(way: Way, ttl: Duration, pace: Pace, dice: &mut Dice) -> Vec<Step> {
    let long = way == Way::MaxHold || (pace == Pace::Mixed && dice.one_in(25));
    let count = 1 + dice.roll(4);
    let step = |_| Step {
        thinks: match way {
            Way::Blocks => ttl.mul_f64(1.5) / count as u32,
            _ => Duration::from_micros(dice.roll(3000)),
        },
        awaits: match long {
            true => ttl.mul_f64(dice.roll(60) as f64 / 100.0),
            false => Duration::from_micros(dice.roll(8000)),
        },
    };
    (0..count).map(step).collect()
}

/// For a little longer than the ttl.
fn small_steps(ttl: Duration) -> Vec<Step> {
    let awaits = millis(4);
    let step = Step {
        thinks: Duration::ZERO,
        awaits,
    };
    vec![step; (ttl.as_nanos() * 5 / 4 / awaits.as_nanos()) as usize]
}

impl Call {
    async fn make(self, way: Way, dice: &mut Dice) -> How {
        let made = match way {
            Way::Waits | Way::TriesOnce | Way::Blocks => waits(&self).await,
            Way::ReleasesInBackground => releases_in_background(&self).await,
            Way::Guard => by_hand(&self, dice.one_in(2)).await,
            Way::Continues => continues(&self).await,
            Way::Unrenewed => unrenewed(&self).await,
            Way::MaxHold => max_hold(&self).await,
            Way::Fails => fails(&self).await,
            Way::Panics => match tokio::spawn(panics(self)).await {
                Ok(made) => made,
                Err(_) => return How::Panicked,
            },
            Way::Dropped => {
                let patience = Duration::from_micros(dice.roll(100_000));
                match tokio::time::timeout(patience, waits(&self)).await {
                    Ok(made) => made,
                    Err(_) => return How::Dropped,
                }
            }
        };
        match made {
            Ok(()) => How::Done,
            Err(CallError::OnPurpose) => How::Failed,
            Err(CallError::Stale) => How::Refused,
            Err(CallError::Lock(error)) if error.is_busy() => How::Busy,
            Err(CallError::Lock(error)) if error.is_lost() => How::Lost,
            Err(CallError::Lock(error)) if error.is_unavailable() => How::Unavailable,
            Err(CallError::Lock(error)) => How::Wrong(error.to_string()),
        }
    }

    /// What runs under the lock.
    async fn body(&self, lock: &LockGuard) -> Result<(), CallError> {
        self.look(lock, |left| What::Acquired { left });
        let token = match self.fenced {
            true => self.token(lock).await?,
            false => 0,
        };
        for (n, step) in self.steps.iter().enumerate() {
            if self.asks {
                lock.ensure(Duration::ZERO)?;
            }
            if n > 0 || self.fenced {
                self.look(lock, |left| What::Step { left });
            }
            self.write(token, step.thinks)?;
            self.rest(lock, step.awaits).await;
        }
        if self.fenced {
            // The same as before.
            self.token(lock).await?;
        }
        Ok(())
    }

    /// It looks again and again meanwhile, so that it is known when the lease ended.
    async fn rest(&self, lock: &LockGuard, mut time: Duration) {
        const BEAT: Duration = millis(25);
        while time > BEAT {
            tokio::time::sleep(BEAT).await;
            self.look(lock, |left| What::Step { left });
            time -= BEAT;
        }
        tokio::time::sleep(time).await;
    }

    /// The stamp is taken first: what can be proven afterwards could be then.
    fn look(&self, lock: &LockGuard, what: impl FnOnce(u64) -> What) {
        let at = clock::now();
        let left = lock.remaining().as_nanos() as u64;
        self.journal.write_at(at, self.number, what(left));
    }

    async fn token(&self, lock: &LockGuard) -> Result<u64, CallError> {
        let asked = clock::now();
        let token = lock.fencing_token().await?;
        self.journal
            .write(self.number, What::Token { asked, token });
        Ok(token)
    }

    /// A step that no lock can interrupt.
    fn write(&self, token: u64, thinks: Duration) -> Result<(), CallError> {
        let read = self.account.read(token).ok_or(CallError::Stale)?;
        std::thread::sleep(thinks);
        match self.account.write(self.number, token, read) {
            true => Ok(()),
            false => Err(CallError::Stale),
        }
    }
}

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
async fn waits(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    release = "background"
)]
async fn releases_in_background(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    on_lost = "continue"
)]
async fn continues(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    renew = false
)]
async fn unrenewed(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(
    key = "door:<call.key>",
    ttl = call.ttl,
    wait = call.wait,
    manager = call.locks,
    guard = lock,
    max_hold = call.ttl / 2
)]
async fn max_hold(call: &Call) -> Result<(), CallError> {
    call.body(lock).await
}

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
async fn fails(call: &Call) -> Result<(), CallError> {
    call.body(lock).await?;
    Err(CallError::OnPurpose)
}

#[distributed_lock(key = "door:<call.key>", ttl = call.ttl, wait = call.wait, manager = call.locks, guard = lock)]
async fn panics(call: Call) -> Result<(), CallError> {
    call.body(lock).await?;
    std::panic::panic_any(ON_PURPOSE);
}

/// Without an attribute.
async fn by_hand(call: &Call, drops: bool) -> Result<(), CallError> {
    let key = format!("door:{}", call.key);
    let lock = call.locks.lock(key).ttl(call.ttl).wait(call.wait);
    let guard = lock.acquire().await?;
    let body = call.body(&guard).await;
    match drops {
        true => drop(guard),
        false => guard.release().await?,
    }
    body
}
