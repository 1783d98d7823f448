//! A process that competes for the locks until it is ordered to end.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lock_runtime::{Config, LockError, LockManager};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::calls::Caller;
use crate::event::{Journal, What};
use crate::order::Order;
use crate::panics;
use crate::support::dice::Dice;
use crate::support::time::millis;
use crate::support::worker::{Worker, next_order, tell};

/// A shutdown that takes longer counts as hanging.
const LONGEST_SHUTDOWN: Duration = millis(20_000);

/// Starts the process. It reports `ready` and, at its end, `over`; its orders are `drop`, which drops its
/// runtimes, and `end`.
pub fn start(order: &Order, environment: &[(&str, String)]) -> Worker {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("worker");
    command.arg(serde_json::to_string(order).unwrap());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    Worker::run(command)
}

/// Runs inside the worker process.
pub fn work(order: &str) {
    let order: Order = serde_json::from_str(order).unwrap();
    if order.habit.panicking_log {
        panics::in_subscriber();
    }
    let mut crews: Vec<_> = (0..order.managers)
        .map(|n| Crew::start(&order, n))
        .collect();
    let journals: Vec<_> = crews.iter().map(|crew| crew.journal.clone()).collect();
    panics::record(journals[0].clone());
    thread::spawn(move || notice_stalls(&journals));
    crews.iter().for_each(Crew::until_ready);
    panics::arm();
    tell("ready");
    // Any other order, or a closed pipe, ends the process.
    while next_order() == "drop" {
        crews.iter().for_each(Crew::drop_runtime);
    }
    crews.iter_mut().for_each(Crew::end);
    tell("over");
    // The parent checks meanwhile that its connections are closed.
    next_order();
}

/// The callers of one lock manager, on a runtime of their own.
struct Crew {
    journal: Arc<Journal>,
    ready: Receiver<()>,
    orders: watch::Sender<Stage>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Stage {
    /// Calls run on the runtime with this number.
    Works(u64),
    Ends,
}

impl Crew {
    fn start(order: &Order, number: u32) -> Self {
        let worker = order.first + number;
        let path = Order::journal(&order.journals, worker);
        let journal = Arc::new(Journal::open(&path, worker));
        let (orders, stage) = watch::channel(Stage::Works(0));
        let (is_ready, ready) = channel();
        let (theirs, order) = (journal.clone(), order.clone());
        let dice = Dice::with(order.seed.wrapping_add(u64::from(number)));
        let work = move || attend(&order, worker, &theirs, dice, stage, &is_ready);
        Self {
            journal,
            ready,
            orders,
            thread: Some(thread::spawn(work)),
        }
    }

    fn until_ready(&self) {
        self.ready.recv().unwrap();
    }

    fn drop_runtime(&self) {
        self.orders.send_modify(|stage| {
            if let Stage::Works(runtime) = stage {
                *runtime += 1;
            }
        });
    }

    fn end(&mut self) {
        self.orders.send_replace(Stage::Ends);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Runs one runtime after the other, of all kinds: with one thread, two or four, with and without I/O.
fn attend(
    order: &Order,
    worker: u32,
    journal: &Arc<Journal>,
    mut dice: Dice,
    stage: watch::Receiver<Stage>,
    is_ready: &Sender<()>,
) {
    let mut runtime = new_runtime(order, &mut dice);
    let locks = runtime.block_on(connect(&order.config()));
    is_ready.send(()).unwrap();
    let caller = Arc::new(Caller::new(order, worker, journal.clone(), locks));
    let mut now = Stage::Works(0);
    loop {
        let mut stage = stage.clone();
        let (caller, dice) = (caller.clone(), &mut dice);
        now = runtime.block_on(async {
            let mut crew = JoinSet::new();
            for _ in 0..order.habit.tasks {
                crew.spawn(caller.clone().call_during(now, stage.clone(), dice.split()));
            }
            let next = *stage.wait_for(|stage| *stage != now).await.unwrap();
            if next == Stage::Ends {
                crew.join_all().await;
            }
            next
        });
        if now == Stage::Ends {
            break;
        }
        // This drops all calls that are under way, once the threads that poll them have returned.
        let start = crate::clock::now();
        runtime.shutdown_timeout(Duration::from_secs(30));
        // A current-thread runtime drops them when its blocking threads have ended.
        let for_ = crate::clock::now() - start;
        journal.write(0, What::Blocked { for_ });
        journal.write(0, What::RuntimeDropped);
        runtime = new_runtime(order, dice);
    }
    runtime.block_on(leave(caller, journal, dice));
    let tasks = runtime.metrics().num_alive_tasks();
    let threads = lock_threads();
    journal.write(0, What::Over { threads, tasks });
}

fn new_runtime(order: &Order, dice: &mut Dice) -> Runtime {
    let mut builder = match dice.roll(3) {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if !dice.one_in(4) || !order.habit.without_io {
        builder.enable_io();
    }
    let threads = if dice.one_in(2) { 2 } else { 4 };
    builder
        .worker_threads(threads)
        .enable_time()
        .build()
        .unwrap()
}

/// Connects as soon as the servers permit it.
pub async fn connect(config: &Config) -> LockManager {
    loop {
        // A server may be unavailable, or permit too little for now.
        match LockManager::connect(config.clone()).await {
            Ok(locks) => return locks,
            Err(LockError::Unavailable { .. } | LockError::InvalidConfig { .. }) => {
                tokio::time::sleep(millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Acquires each lock once more when all faults are over; after that nothing of the locks is left.
async fn leave(caller: Arc<Caller>, journal: &Journal, mut dice: Dice) {
    caller.call_each_once(&mut dice).await;
    let start = crate::clock::now();
    let _ = tokio::time::timeout(LONGEST_SHUTDOWN, caller.locks.shutdown()).await;
    let took = crate::clock::now() - start;
    journal.write(0, What::ShutDown { took });
    drop(caller);
    let patience = Instant::now() + millis(3000);
    while Handle::current().metrics().num_alive_tasks() > 0 && Instant::now() < patience {
        tokio::time::sleep(millis(5)).await;
    }
}

/// Counts the threads of this process that belong to the library, except for the permanent one.
fn lock_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let names = tasks.filter_map(|task| name(task.unwrap()).ok());
    names
        .filter(|name| name.starts_with("lock-") && name.trim() != "lock-io")
        .count()
}

/// Records each time in which this process did not run.
fn notice_stalls(journals: &[Arc<Journal>]) {
    const BEAT: Duration = millis(5);
    const WORTH_TELLING: Duration = millis(15);
    loop {
        let start = crate::clock::now();
        thread::sleep(BEAT);
        let late = Duration::from_nanos(crate::clock::now() - start).saturating_sub(BEAT);
        if late > WORTH_TELLING {
            let for_ = late.as_nanos() as u64;
            journals
                .iter()
                .for_each(|journal| journal.write(0, What::Stalled { for_ }));
        }
    }
}
