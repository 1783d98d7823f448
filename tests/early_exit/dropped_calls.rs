//! Calls on two managers that are dropped at a random point: nothing is left of them, and the next caller
//! acquires the lock at once.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use lock_runtime::{Config, LockError, LockManager, LostCause};
use tokio::runtime::Handle;
use tokio::task::{JoinSet, yield_now};

use lock_test_support::manager::{connected, use_once};
use lock_test_support::rng::Rng;
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, millis, patient, soon};

const KEYS: u64 = 5;
const AT_ONCE: usize = 40;

/// Returns the number of drops: `LOCK_DROPS`, for example 100000 for a long run.
fn drops() -> u64 {
    std::env::var("LOCK_DROPS").map_or(10_000, |drops| drops.parse().unwrap())
}

/// Polls the future `polls` times, also without a wakeup if `impatient`, then drops it. Returns its output,
/// if any.
async fn polled<F: Future>(polls: u64, impatient: bool, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = future.as_mut().poll(context).map(Some);
        if polled.is_pending() && (impatient || left == 0) {
            context.waker().wake_by_ref();
        }
        polled
    })
    .await
}

/// Acquires the lock in one of several ways, with await points before, during and after the hold.
async fn call(locks: LockManager, key: String, kind: u64) -> Result<(), LockError> {
    let lock = locks.lock(key);
    match kind {
        0 => lock.acquire().await?.release().await,
        1 => match lock.try_acquire().await? {
            Some(guard) => guard.release().await,
            None => Ok(()),
        },
        _ => {
            let body = async |_: &_| {
                yield_now().await;
                tokio::time::sleep(millis(1)).await;
            };
            lock.run(body).await
        }
    }
}

/// Makes `calls` calls and drops most of them midway. Returns the number of dropped calls.
async fn drop_calls(managers: &[LockManager; 2], calls: u64, rng: &mut Rng) -> u64 {
    let mut crew = JoinSet::new();
    let mut dropped = 0;
    let mut count = |output: Option<Result<(), LockError>>| match output {
        // A grant lasts for two seconds, for which the machine may starve this process.
        Some(Err(LockError::Lost {
            cause: LostCause::Expired,
            ..
        })) => {}
        Some(output) => output.unwrap(),
        None => dropped += 1,
    };
    for n in 0..calls {
        let key = rng.below(KEYS).to_string();
        let locks = managers[usize::from(rng.one_in(2))].clone();
        let call = call(locks, key, rng.below(3));
        crew.spawn(polled(rng.below(8), rng.one_in(3), call));
        if n >= AT_ONCE as u64 {
            count(soon(crew.join_next()).await.unwrap().unwrap());
        }
    }
    for output in soon(crew.join_all()).await {
        count(output);
    }
    dropped
}

/// Returns the number of this process's threads that belong to the library.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
    let names = tasks.filter_map(|task| name(task.unwrap()).ok());
    names.filter(|name| name.starts_with("lock-")).count()
}

/// Asserts that no dropped call blocks either manager: each acquires every lock in less than its TTL.
async fn all_are_free(managers: &[LockManager; 2]) {
    for locks in [&managers[0], &managers[1], &managers[0]] {
        for key in 0..KEYS {
            use_once(locks, &key.to_string()).await;
        }
    }
}

async fn ten_thousand(config: impl Fn() -> Config, flat: impl Fn() -> usize) {
    let connect = || async { connected(patient(config())).await };
    let managers = [connect().await, connect().await];
    let mut rng = Rng::random();
    let start = Instant::now();
    // The first calls create everything that is kept permanently.
    let mut dropped = drop_calls(&managers, drops() / 10, &mut rng).await;
    all_are_free(&managers).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let before = (threads(), flat());
    let mut calls = drops() / 10;
    while dropped < drops() {
        dropped += drop_calls(&managers, drops() / 10, &mut rng).await;
        calls += drops() / 10;
        all_are_free(&managers).await;
    }
    let took = start.elapsed();
    println!("{calls} calls, {dropped} dropped, in {took:?}; threads and connections: {before:?}");
    eventually("no task of this runtime is left", || {
        Handle::current().metrics().num_alive_tasks() <= tasks
    });
    assert_eq!((threads(), flat()), before);
    for locks in managers {
        soon(locks.shutdown()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_on_server_leave_nothing() {
    let server = Server::start();
    let config = || Config::new(server.url());
    ten_thousand(config, || server.connections()).await;
    for key in 0..KEYS {
        assert_eq!(server.waiting(&key.to_string()), 0);
    }
    eventually("no manager is kept alive", || server.connections() == 0);
    assert_eq!(server.query::<Vec<String>>("KEYS lock:[0-9]*"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_dropped_calls_in_memory_leave_nothing() {
    ten_thousand(|| Config::new("memory://dropped-calls"), || 0).await;
}
