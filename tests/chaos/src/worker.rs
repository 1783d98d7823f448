//! A process that competes for the locks until it is ordered to end.

use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lock_runtime::{Config, LockError, LockManager, Report, Stats};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::calls::{Caller, Phase};
use crate::instructions::Instructions;
use crate::journal::{EventKind, Journal};
use crate::panics;
use crate::revocation::Demand;
use crate::revoker::revoke;
use lock_test_support::rng::Rng;
use lock_test_support::time::{comes_true, millis};
use lock_test_support::worker::{Worker, next_order, report_event};

/// A shutdown that takes longer counts as hanging.
const LONGEST_SHUTDOWN: Duration = millis(20_000);

/// The longest time for which the bodies of a worker that shuts down may finish.
const LONGEST_GRACE: u64 = 600;

/// For how long a fault may prevent a worker from connecting. Less than the pool waits for its workers, so
/// that the error is shown.
const LONGEST_FAULT: Duration = millis(60_000);

/// Starts the process. It reports `ready` and, at its end, `over`; its orders are `drop`, which drops its
/// runtimes, `leave`, which ends it at once in an ordinary way, and `end`.
pub fn start(instructions: &Instructions, environment: &[(&str, String)]) -> Worker {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("worker");
    command.arg(serde_json::to_string(instructions).unwrap());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    Worker::run(command)
}

/// Runs inside the worker process.
pub fn work(instructions: &str) {
    let instructions: Instructions = serde_json::from_str(instructions).unwrap();
    if instructions.workload.panicking_log {
        panics::in_subscriber();
    }
    let mut pools: Vec<_> = (0..instructions.managers)
        .map(|n| Callers::start(&instructions, n))
        .collect();
    let journals: Vec<_> = pools.iter().map(|pool| pool.journal.clone()).collect();
    panics::record(journals[0].clone());
    thread::spawn(move || notice_stalls(&journals));
    pools.iter_mut().for_each(Callers::until_ready);
    panics::arm();
    report_event("ready");
    let end = loop {
        match &*next_order() {
            "drop" => pools.iter().for_each(Callers::drop_runtime),
            "leave" => break Phase::Leaves,
            order => match order.strip_prefix("revoke ") {
                Some(demand) => {
                    let demand: Demand = serde_json::from_str(demand).unwrap();
                    let at = demand.seed as usize % pools.len();
                    pools[at].revoke(demand);
                }
                // Or a closed pipe.
                None => break Phase::Ends,
            },
        }
    };
    pools.iter_mut().for_each(|pool| pool.end(end));
    if end == Phase::Leaves {
        return;
    }
    report_event("over");
    // The parent checks meanwhile that its connections are closed.
    next_order();
}

/// The callers of one lock manager, on a runtime of their own.
struct Callers {
    journal: Arc<Journal>,
    ready: Receiver<LockManager>,
    /// Its lock manager, until the end begins.
    locks: Option<LockManager>,
    /// The locks that it revokes.
    revokes: Vec<JoinHandle<()>>,
    orders: watch::Sender<Phase>,
    thread: Option<JoinHandle<()>>,
}

impl Callers {
    fn start(instructions: &Instructions, number: u32) -> Self {
        let worker = instructions.first + number;
        let path = Instructions::journal(&instructions.journals, worker);
        let journal = Arc::new(Journal::open(&path, worker));
        let (orders, phase) = watch::channel(Phase::Works(0));
        let (is_ready, ready) = channel();
        let (theirs, instructions) = (journal.clone(), instructions.clone());
        let rng = Rng::with(instructions.seed.wrapping_add(u64::from(number)));
        let work = move || attend(&instructions, worker, &theirs, rng, phase, &is_ready);
        Self {
            journal,
            ready,
            locks: None,
            revokes: Vec::new(),
            orders,
            thread: Some(thread::spawn(work)),
        }
    }

    fn until_ready(&mut self) {
        self.locks = Some(self.ready.recv().unwrap());
    }

    /// Revokes a lock, on a runtime of its own.
    fn revoke(&mut self, demand: Demand) {
        let (locks, journal) = (self.locks.clone(), self.journal.clone());
        self.revokes.extend(locks.map(|locks| {
            thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_time().build();
                runtime.unwrap().block_on(revoke(&locks, &journal, &demand));
            })
        }));
    }

    fn drop_runtime(&self) {
        self.orders.send_modify(|phase| {
            if let Phase::Works(runtime) = phase {
                *runtime += 1;
            }
        });
    }

    fn end(&mut self, end: Phase) {
        self.locks = None;
        for revokes in self.revokes.drain(..) {
            revokes.join().unwrap();
        }
        self.orders.send_replace(end);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Runs one runtime after the other, of all kinds: with one thread, two or four, with and without I/O.
fn attend(
    instructions: &Instructions,
    worker: u32,
    journal: &Arc<Journal>,
    mut rng: Rng,
    phase: watch::Receiver<Phase>,
    is_ready: &Sender<LockManager>,
) {
    let mut runtime = new_runtime(instructions, &mut rng);
    // The others hear what is asked once they have waited for a lock, or renewed one.
    let report = match rng.one_in(2) {
        true => Report::Live,
        false => Report::Periodic,
    };
    let config = instructions.config().report(report);
    let connect = async || {
        let locks = connect(&config).await;
        let process = locks.process_id().to_string();
        journal.write(0, EventKind::Connected { process });
        locks
    };
    let locks = runtime.block_on(connect());
    is_ready.send(locks.clone()).unwrap();
    let mut caller = Arc::new(Caller::new(instructions, worker, journal.clone(), locks));
    let grace = rng.one_in(2).then(|| millis(rng.below(LONGEST_GRACE)));
    let mut now = Phase::Works(0);
    loop {
        let mut phase = phase.clone();
        let (caller, rng) = (caller.clone(), &mut rng);
        now = runtime.block_on(async {
            let mut pool = JoinSet::new();
            for _ in 0..instructions.workload.tasks {
                pool.spawn(caller.clone().call_during(now, phase.clone(), rng.split()));
            }
            let next = *phase.wait_for(|phase| *phase != now).await.unwrap();
            if next == Phase::Ends {
                let shut_down = async {
                    if let Some(grace) = grace {
                        shut_down(&caller.locks, grace, journal).await;
                    }
                };
                tokio::join!(pool.join_all(), shut_down);
            }
            next
        });
        match now {
            Phase::Ends => break,
            Phase::Leaves => return end_as_main_does(runtime, &caller, journal, rng),
            Phase::Works(_) => {}
        }
        // This drops all calls that are under way, once the threads that poll them have returned.
        // A current-thread runtime drops them when its blocking threads have ended.
        journal.blocked(|| runtime.shutdown_timeout(Duration::from_secs(30)));
        journal.write(0, EventKind::RuntimeDropped);
        runtime = new_runtime(instructions, rng);
    }
    if grace.is_some() {
        let locks = runtime.block_on(connect());
        caller = Arc::new(caller.with(locks));
    }
    let tasks = runtime.block_on(leave(caller, journal, rng));
    // That of a file ends a moment after its manager.
    comes_true(|| lock_threads() == 0);
    let threads = lock_threads();
    journal.write(0, EventKind::Exited { threads, tasks });
}

/// Ends a runtime, on which calls are under way, in one of the ways in which programs do.
fn end_as_main_does(runtime: Runtime, caller: &Caller, journal: &Journal, rng: &mut Rng) {
    match rng.below(3) {
        0 => drop(runtime),
        1 => runtime.shutdown_timeout(Duration::from_secs(30)),
        _ => {
            let grace = millis(rng.below(50));
            runtime.block_on(shut_down(&caller.locks, grace, journal));
            drop(runtime);
        }
    }
    caller.left();
}

fn new_runtime(instructions: &Instructions, rng: &mut Rng) -> Runtime {
    let mut builder = match rng.below(3) {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if !rng.one_in(4) || !instructions.workload.without_io {
        builder.enable_io();
    }
    let threads = if rng.one_in(2) { 2 } else { 4 };
    builder
        .worker_threads(threads)
        .enable_time()
        .build()
        .unwrap()
}

/// Connects as soon as the servers permit it.
pub async fn connect(config: &Config) -> LockManager {
    let end = Instant::now() + LONGEST_FAULT;
    loop {
        // A server may be unavailable, or permit too little for now.
        match LockManager::connect(config.clone()).await {
            Ok(locks) => return locks,
            Err(LockError::Unavailable { .. } | LockError::InvalidConfig { .. })
                if Instant::now() < end =>
            {
                tokio::time::sleep(millis(20)).await;
            }
            Err(error) => panic!("no connection: {error}"),
        }
    }
}

/// Shuts the manager down while calls are under way.
async fn shut_down(locks: &LockManager, grace: Duration, journal: &Journal) {
    let begins = EventKind::ShutsDown {
        grace: grace.as_nanos() as u64,
    };
    journal.write(0, begins);
    timed(locks.shutdown_within(grace), journal).await;
    count(locks, journal);
}

async fn timed(shutdown: impl Future<Output = ()>, journal: &Journal) {
    let start = crate::clock::now();
    let _ = tokio::time::timeout(LONGEST_SHUTDOWN, shutdown).await;
    let took = crate::clock::now() - start;
    journal.write(0, EventKind::ShutDown { took });
}

fn count(locks: &LockManager, journal: &Journal) {
    let Stats {
        resumed, recalled, ..
    } = locks.stats();
    journal.write(0, EventKind::Counted { resumed, recalled });
}

/// Acquires each lock once more when all faults are over; after that nothing of the locks is left. Returns
/// the number of tasks that stay. A connection that is made just then still begins its task, which ends at
/// once.
async fn leave(caller: Arc<Caller>, journal: &Journal, mut rng: Rng) -> usize {
    caller.call_each_once(&mut rng).await;
    timed(caller.locks.shutdown(), journal).await;
    count(&caller.locks, journal);
    drop(caller);
    let patience = Instant::now() + millis(3000);
    loop {
        let tasks = Handle::current().metrics().num_alive_tasks();
        if tasks == 0 || Instant::now() >= patience {
            return tasks;
        }
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
                .for_each(|journal| journal.write(0, EventKind::Stalled { for_ }));
        }
    }
}
