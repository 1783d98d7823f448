//! Several processes, some of which are killed or stopped.

use std::path::Path;
use std::time::Duration;

use lock_runtime::{LockError, LockGuard, LockManager, distributed_lock};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::database::Database;
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

const LONG: Duration = Duration::from_secs(60);

/// Reads, sleeps, writes: correct only under mutual exclusion.
async fn increment(path: &Path) {
    let value = Database::open(path).value();
    tokio::time::sleep(millis(2)).await;
    Database::open(path).set(value + 1);
}

#[distributed_lock(key = "counter", wait = "60s", manager = locks)]
async fn increment_alone(locks: &LockManager, path: &Path) -> Result<(), LockError> {
    increment(path).await;
    Ok(())
}

const PROCESSES: usize = 4;
const TASKS: usize = 50;

/// In each process: runs all tasks at once when ordered to.
fn increment_often(url: &str, path: &str, alone: bool) {
    block_on(async {
        let locks = connected(patient(url)).await;
        report_event("ready");
        next_order();
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (locks, path) = (locks.clone(), path.to_owned());
            tasks.spawn(async move {
                match alone {
                    true => increment_alone(&locks, path.as_ref()).await.unwrap(),
                    false => increment(path.as_ref()).await,
                }
            });
        }
        tasks.join_all().await;
        locks.shutdown().await;
    });
}

/// Returns the counter after all tasks of all processes have incremented it once.
fn count<T: Fn() + Copy>(test: T, alone: bool) -> usize {
    let server = Server::start();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("counter.db");
    let database = Database::create(&path);
    let arguments = [&*server.url(), path.to_str().unwrap(), &alone.to_string()];
    let start = || Worker::start(test, &arguments);
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    workers
        .iter()
        .for_each(|worker| drop(worker.expect("ready")));
    workers.iter_mut().for_each(|worker| worker.order("go"));
    workers.iter_mut().for_each(|worker| worker.succeeds());
    database.value() as usize
}

fn counted(test: impl Fn() + Copy, alone: bool) -> Option<usize> {
    if let Some(arguments) = arguments() {
        increment_often(&arguments[0], &arguments[1], arguments[2] == "true");
        return None;
    }
    Some(count(test, alone))
}

#[test]
fn two_hundred_tasks_with_lock_lose_no_update() {
    if let Some(counted) = counted(two_hundred_tasks_with_lock_lose_no_update, true) {
        assert_eq!(counted, PROCESSES * TASKS);
    }
}

/// The control: without a lock, the test above does lose updates.
#[test]
fn two_hundred_tasks_without_lock_lose_updates() {
    if let Some(counted) = counted(two_hundred_tasks_without_lock_lose_updates, false) {
        assert!(counted < PROCESSES * TASKS, "{counted} updates, none lost");
    }
}

/// In the other process: takes a step that either awaits or blocks, then writes with its fencing token.
fn hold_and_write(url: &str, path: &str, awaits: bool) {
    let body = async |guard: &LockGuard| {
        let token = guard.fencing_token().await.unwrap();
        report_event("held");
        if awaits {
            tokio::task::spawn_blocking(next_order).await.unwrap();
            report_event("resumed");
        } else {
            next_order();
        }
        let written = Database::open(path.as_ref()).set_fenced(1, token);
        report_event(if written { "written" } else { "refused" });
        tokio::task::yield_now().await;
        report_event("resumed");
    };
    block_on(async {
        let locks = connected(url).await;
        let held = locks.lock("row").ttl(millis(3000)).run(body).await;
        assert!(held.unwrap_err().is_lost());
        report_event("lost");
        locks.shutdown().await;
    });
}

/// The holder is stopped past its TTL, another client writes, and the holder resumes with its next step
/// ready.
fn freeze<T: Fn()>(test: T, awaits: bool) -> Option<(Worker, Database, TempDir)> {
    if let Some(arguments) = arguments() {
        hold_and_write(&arguments[0], &arguments[1], arguments[2] == "true");
        return None;
    }
    let server = Server::start();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("row.db");
    let database = Database::create(&path);
    let arguments = [&*server.url(), path.to_str().unwrap(), &awaits.to_string()];
    let mut worker = Worker::start(test, &arguments);
    worker.expect("held");
    worker.pause();
    block_on(async {
        let locks = connected(patient(server.url())).await;
        let guard = soon(locks.lock("row").wait(LONG).acquire()).await.unwrap();
        assert!(database.set_fenced(2, guard.fencing_token().await.unwrap()));
        worker.order("continue");
        worker.resume();
        if !awaits {
            worker.expect("refused");
        }
        worker.expect("lost");
        worker.succeeds();
        guard
            .ensure_valid_for(millis(500))
            .expect("the resumed holder did not take the lock");
        guard.release().await.unwrap();
    });
    Some((worker, database, directory))
}

#[test]
fn resumed_holder_takes_no_further_step() {
    if let Some((_, database, _directory)) = freeze(resumed_holder_takes_no_further_step, true) {
        assert_eq!(database.value(), 2);
    }
}

#[test]
fn late_write_of_resumed_holder_is_rejected() {
    let late = freeze(late_write_of_resumed_holder_is_rejected, false);
    if let Some((_, database, _directory)) = late {
        assert_eq!(database.value(), 2);
    }
}

/// A process that awaits `shutdown` before it ends releases its locks.
#[test]
fn process_that_shuts_down_leaves_no_lock() {
    if let Some(arguments) = arguments() {
        block_on(async {
            lock_runtime::init(arguments[0].as_str()).await.unwrap();
            let locks = lock_runtime::manager().unwrap();
            let mut guards = Vec::new();
            for n in 0..300 {
                guards.push(locks.lock(format!("row:{n}")).acquire().await.unwrap());
            }
            report_event("held");
            drop(guards);
            lock_runtime::shutdown().await;
            let refused = locks.lock("row").acquire().await.unwrap_err();
            assert!(matches!(refused, LockError::ShuttingDown { .. }));
        });
        return;
    }
    let server = Server::start();
    let mut worker = Worker::start(process_that_shuts_down_leaves_no_lock, &[&server.url()]);
    worker.expect("held");
    worker.succeeds();
    assert_eq!(server.key_count(), 0, "released before the process ended");
}
