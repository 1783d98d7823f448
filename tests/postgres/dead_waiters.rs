//! Processes that die while they wait cost those behind them little, also if the lock is not free and only
//! those behind would fit.

use std::time::{Duration, Instant};

use lock_runtime::{Lock, LockManager};

use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{NOISE, Timed, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

const LONG: Duration = millis(60_000);
/// A silent waiter is known as dead by then, …
const SILENT: Duration = millis(2200);
/// … six of them, …
const SIX_SILENT: Duration = millis(3200);
/// … and a killed one when the next waiter asks.
const KILLED: Duration = millis(1200);

fn writes(locks: &LockManager) -> Lock {
    locks.lock("row").wait(LONG)
}

fn reads(locks: &LockManager) -> Lock {
    writes(locks).read()
}

/// In the other process: waits to write.
#[test]
fn process() {
    let Some(arguments) = arguments() else { return };
    block_on(async {
        let locks = connected(patient(&*arguments[0])).await;
        let writer = tokio::spawn(writes(&locks).acquire());
        report_event("waits");
        drop(writer.await);
    });
}

/// Lets that many processes wait to write, then one caller behind them, and applies `die` to them. Returns
/// for how long the caller waited from then on. `holder`: has the lock meanwhile; it is released at once if
/// the caller does not `fit` beside it.
async fn behind(
    waiters: usize,
    die: fn(&mut Worker),
    holder: fn(&LockManager) -> Lock,
    caller: fn(&LockManager) -> Lock,
    fits: bool,
) -> Duration {
    let mut server = Postgres::start();
    server.leave_locks();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let held = holder(&locks).acquire().await.unwrap();
    let mut dead = Vec::new();
    for before in 0..waiters {
        let worker = Worker::start(process, &[&server.url()]);
        worker.expect("waits");
        server.until_waiting("row", before + 1);
        dead.push(worker);
    }
    let caller = tokio::spawn(caller(&other).acquire());
    server.until_waiting("row", waiters + 1);
    // Each has asked again since it entered, and waits as the first or a later one does.
    tokio::time::sleep(millis(700)).await;
    dead.iter_mut().for_each(die);
    let watch = Instant::now();
    let held = match fits {
        true => Some(held),
        false => {
            held.release().await.unwrap();
            None
        }
    };
    let guard = soon(caller).await.unwrap().unwrap();
    let waited = watch.elapsed();
    guard.release().await.unwrap();
    drop(held);
    waited
}

async fn readers_behind(waiters: usize, die: fn(&mut Worker), limit: Duration) {
    let waited = behind(waiters, die, reads, reads, true).await;
    assert!(waited <= limit + NOISE, "{waited:?} behind {waiters}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_writers_keep_no_reader_waiting() {
    let _timed = Timed::start();
    readers_behind(1, Worker::kill, KILLED).await;
    readers_behind(6, Worker::kill, SILENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_writers_keep_a_reader_waiting_for_two_seconds() {
    let _timed = Timed::start();
    readers_behind(1, |worker| worker.pause(), SILENT).await;
    readers_behind(6, |worker| worker.pause(), SIX_SILENT).await;
}

/// The first is granted the lock for two seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_silent_waiters_cost_one_grant() {
    let _timed = Timed::start();
    let waited = behind(6, |worker| worker.pause(), writes, writes, false).await;
    assert!(waited <= SIX_SILENT + NOISE, "{waited:?}");
}
