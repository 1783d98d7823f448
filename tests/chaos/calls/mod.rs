//! The callers of one worker: the functions that they call, and the events that they record.

mod body;
mod functions;
mod threads;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lock_runtime::LockManager;
use tokio::sync::watch;

use crate::book::Account;
use crate::clock;
use crate::event::{Journal, Way, What};
use crate::order::{Habit, Order, Pace};
use crate::support::dice::Dice;
use crate::support::time::millis;
use crate::worker::Stage;
use body::{Call, steps};

pub const ON_PURPOSE: &str = "on purpose";

/// The wait timeout of a call that is not meant to give up.
const LONG: Duration = Duration::from_secs(60);

/// The wait timeout of the last calls: longer than any lease that may be left.
const LAST: Duration = millis(20_000);

/// How long a task blocks its thread after it has dropped a guard.
const BLOCK: Duration = millis(700);

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

    /// Calls one function after the other until the stage changes.
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

    fn any_way(&self, dice: &mut Dice) -> Way {
        let ways = &self.habit.ways;
        let any = |dice: &mut Dice| ways[dice.roll(ways.len() as u64) as usize];
        match any(dice) {
            way if way.is_rare() && !dice.one_in(5) => any(dice),
            way => way,
        }
    }

    fn any_ttl(&self, dice: &mut Dice) -> Duration {
        let ttls = &self.habit.ttls_ms;
        match ttls.len() as u64 {
            0 => self.ttl,
            ttls_count => millis(ttls[dice.roll(ttls_count) as usize]),
        }
    }

    pub async fn call_each_once(&self, dice: &mut Dice) {
        for key in 0..self.keys {
            self.call(Way::Waits, key, LAST, Pace::Short, dice).await;
        }
    }

    async fn call(&self, way: Way, key: u32, wait: Duration, pace: Pace, dice: &mut Dice) {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        let ttl = self.any_ttl(dice);
        // Long leases do not make bodies longer.
        let length = ttl.min(self.ttl);
        let call = Call {
            locks: self.locks.clone(),
            journal: self.journal.clone(),
            number,
            key,
            ttl,
            max_hold: length / 2,
            wait: match way {
                Way::TriesOnce => Duration::ZERO,
                Way::OwnRuntime | Way::ThreadLocal => wait.min(millis(5000)),
                _ => wait,
            },
            account: Account::new(&self.book, self.worker, key),
            fenced: self.fenced,
            asks: way == Way::Continues,
            steps: steps(way, ttl, length, pace, dice),
        };
        let asked = What::Asked {
            key,
            way,
            ttl: ttl.as_nanos() as u64,
            wait: call.wait.as_nanos() as u64,
        };
        self.journal.write(number, asked);
        let how = call.make(way, dice).await;
        self.journal.write(number, What::Ended { how });
        if way == Way::ThenBlocks {
            self.block();
        }
    }

    /// Blocks the thread in the same poll in which the guard was dropped.
    fn block(&self) {
        let start = clock::now();
        std::thread::sleep(BLOCK);
        let for_ = clock::now() - start;
        self.journal.write(0, What::Blocked { for_ });
    }
}
