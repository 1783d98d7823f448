//! The load of a contender during a turn, in one process.

use crate::contenders::Contender;
use crate::numbers::Summary;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::timeout;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub tasks: usize,
    /// All tasks want the same lock, or each one of its own.
    pub keys: Keys,
    /// How long a lock is held.
    pub body: Duration,
    pub until: Until,
    /// Distinguishes the keys of different turns.
    pub turn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    Same,
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// Every task continues until the time is up. Tasks that still wait then are stopped.
    Time(Duration),
    /// Every task acquires this many locks.
    Locks(u64),
}

impl Plan {
    /// Returns a plan in which each task has a lock of its own.
    pub fn free(tasks: usize, time: Duration) -> Plan {
        Plan {
            tasks,
            keys: Keys::Own,
            body: Duration::ZERO,
            until: Until::Time(time),
            turn: 0,
        }
    }

    /// Returns a plan in which all tasks want one lock, and hold it with an empty body.
    pub fn contended(tasks: usize, time: Duration) -> Plan {
        Plan {
            keys: Keys::Same,
            ..Plan::free(tasks, time)
        }
    }

    /// Returns a plan in which all tasks want one lock at the same time, once.
    pub fn line(tasks: usize, body: Duration) -> Plan {
        Plan {
            tasks,
            keys: Keys::Same,
            body,
            until: Until::Locks(1),
            turn: 0,
        }
    }

    /// Returns the plan with unused keys.
    pub fn fresh(self) -> Plan {
        static TURN: AtomicU64 = AtomicU64::new(1);
        Plan {
            turn: TURN.fetch_add(1, Ordering::Relaxed),
            ..self
        }
    }

    /// Returns the plan for that time, with unused keys.
    pub fn lasting(self, time: Duration) -> Plan {
        Plan {
            until: Until::Time(time),
            ..self.fresh()
        }
    }

    /// Returns a shortened plan, after which connections are open and scripts are loaded.
    pub fn warm_up(self) -> Plan {
        let short = match self.until {
            Until::Time(time) => Plan {
                until: Until::Time(time / 10),
                ..self
            },
            Until::Locks(_) => Plan {
                tasks: 1,
                body: Duration::ZERO,
                ..self
            },
        };
        short.fresh()
    }

    fn key(self, task: usize) -> String {
        let turn = self.turn;
        match self.keys {
            Keys::Same => format!("bench-{turn}"),
            Keys::Own => format!("bench-{turn}-{task}"),
        }
    }

    /// Formats the plan for another process.
    pub fn write(self) -> String {
        let until = match self.until {
            Until::Time(time) => format!("time {}", time.as_nanos()),
            Until::Locks(locks) => format!("locks {locks}"),
        };
        let keys = match self.keys {
            Keys::Same => "same",
            Keys::Own => "own",
        };
        let body = self.body.as_nanos();
        format!("{} {keys} {body} {until} {}", self.tasks, self.turn)
    }

    pub fn read(words: &str) -> Option<Plan> {
        let mut words = words.split(' ');
        Some(Plan {
            tasks: words.next()?.parse().ok()?,
            keys: match words.next()? {
                "same" => Keys::Same,
                _ => Keys::Own,
            },
            body: Duration::from_nanos(words.next()?.parse().ok()?),
            until: match (words.next()?, words.next()?.parse().ok()?) {
                ("time", time) => Until::Time(Duration::from_nanos(time)),
                (_, locks) => Until::Locks(locks),
            },
            turn: words.next()?.parse().ok()?,
        })
    }
}

/// The result of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// From the first request to the last release, or the end of the time.
    pub elapsed: Duration,
    /// The times of the first request and of the last release.
    pub began: Duration,
    pub ended: Duration,
    /// The time to acquire and release, without the body.
    pub cost: Summary,
    /// The time to acquire.
    pub wait: Summary,
    /// The time of the body; unknown in other languages.
    pub body: Summary,
}

impl Outcome {
    pub fn locks(&self) -> u64 {
        self.cost.count
    }

    pub fn rate(&self) -> f64 {
        self.locks() as f64 / self.elapsed.as_secs_f64()
    }

    pub fn write(&self) -> String {
        let Outcome {
            elapsed,
            began,
            ended,
            cost,
            wait,
            body,
        } = self;
        let times = [elapsed, began, ended].map(|time| time.as_nanos().to_string());
        let summaries = [cost, wait, body].map(Summary::write);
        format!("{} {}", times.join(" "), summaries.join(" "))
    }

    pub fn read(words: &str) -> Option<Outcome> {
        let mut numbers = words.split(' ').map_while(|word| word.parse().ok());
        let mut time = || numbers.next().map(Duration::from_nanos);
        Some(Outcome {
            elapsed: time()?,
            began: time()?,
            ended: time()?,
            cost: Summary::read(&mut numbers)?,
            wait: Summary::read(&mut numbers)?,
            body: Summary::read(&mut numbers).unwrap_or_default(),
        })
    }
}

/// Returns the time on a clock that all processes share.
pub fn clock() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
}

#[derive(Default)]
struct Tally {
    costs: Vec<Duration>,
    waits: Vec<Duration>,
    bodies: Vec<Duration>,
}

pub async fn drive<C: Contender>(contender: &Arc<C>, plan: Plan) -> Outcome {
    let began = clock();
    let start = Instant::now();
    let tasks: Vec<_> = (0..plan.tasks)
        .map(|task| {
            let contender = contender.clone();
            let tally = Arc::new(Mutex::new(Tally::default()));
            let work = work(contender, plan, plan.key(task), start, tally.clone());
            (tokio::spawn(work), tally)
        })
        .collect();
    let mut all = Tally::default();
    let grace = match plan.until {
        Until::Time(time) => start + time + Duration::from_millis(50),
        Until::Locks(_) => start + Duration::from_secs(3600),
    };
    for (mut task, tally) in tasks {
        let left = grace.saturating_duration_since(Instant::now());
        match timeout(left, &mut task).await {
            Ok(done) => done.unwrap(),
            Err(_) => task.abort(),
        }
        let mut tally = tally.lock().unwrap();
        all.costs.append(&mut tally.costs);
        all.waits.append(&mut tally.waits);
        all.bodies.append(&mut tally.bodies);
    }
    let elapsed = match plan.until {
        Until::Time(time) => time,
        Until::Locks(_) => start.elapsed(),
    };
    Outcome {
        elapsed,
        began,
        ended: began + elapsed,
        cost: Summary::of(all.costs),
        wait: Summary::of(all.waits),
        body: Summary::of(all.bodies),
    }
}

async fn work<C: Contender>(
    contender: Arc<C>,
    plan: Plan,
    key: String,
    start: Instant,
    tally: Arc<Mutex<Tally>>,
) {
    let (end, mut left) = match plan.until {
        Until::Time(time) => (start + time, u64::MAX),
        Until::Locks(locks) => (start + Duration::from_secs(3600), locks),
    };
    let mut asked = Instant::now();
    while left > 0 && asked < end {
        left -= 1;
        let body = async {
            let got = Instant::now();
            if plan.body.is_zero() {
                return (got, got);
            }
            match C::SHARED {
                true => tokio::time::sleep_until((got + plan.body).into()).await,
                false => keep(got + plan.body).await,
            }
            (got, Instant::now())
        };
        let (got, done) = contender.run(&key, body).await;
        let released = Instant::now();
        if released <= end {
            let mut tally = tally.lock().unwrap();
            tally.waits.push(got - asked);
            tally.costs.push(released - asked - (done - got));
            tally.bodies.push(done - got);
        }
        asked = released;
    }
}

/// Waits until `until` precisely, not until the next tick of the runtime's millisecond clock.
async fn keep(until: Instant) {
    let tick = Duration::from_micros(1200);
    if let Some(early) = until.checked_sub(tick)
        && early > Instant::now()
    {
        tokio::time::sleep_until(early.into()).await;
    }
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

/// Acquires one lock repeatedly while another process does the same, so that it passes between them. Returns
/// when each hold began and ended.
pub async fn alternate<C: Contender>(
    contender: &Arc<C>,
    turn: u64,
    passes: u64,
    rest: Duration,
) -> Vec<Duration> {
    let contender = contender.clone();
    let key = format!("bench-{turn}");
    let task = async move {
        let mut times = Vec::new();
        for _ in 0..passes {
            let hold = contender.acquire(&key).await;
            times.push(clock());
            tokio::time::sleep(rest * 2).await;
            times.push(clock());
            contender.release(hold).await;
            tokio::time::sleep(rest).await;
        }
        times
    };
    tokio::spawn(task).await.unwrap()
}
