//! Processes that hear bells. The unit tests of the engine show that a release rings.

use lock_runtime::{LockError, LockGuard, LockManager};

use lock_test_support::manager::{connected, silent};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{eventually, millis, patient, soon};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A process that waits for the lock of another one.
struct Waiting {
    managers: [LockManager; 2],
    held: LockGuard,
    waits: JoinHandle<Result<LockGuard, LockError>>,
}

impl Waiting {
    async fn on(server: &MariaDb) -> Self {
        let connect = async || connected(silent(patient(server.url()))).await;
        let managers = [connect().await, connect().await];
        let held = managers[0].lock("row").acquire().await.unwrap();
        let waits = tokio::spawn(managers[1].lock("row").acquire());
        let waiting = Self {
            managers,
            held,
            waits,
        };
        listens(server);
        waiting
    }

    async fn ends(self) {
        self.held.release().await.unwrap();
        let next = soon(self.waits).await.unwrap().unwrap();
        next.release().await.unwrap();
        for manager in self.managers {
            manager.shutdown().await;
        }
    }
}

/// Waits until a session waits for a bell.
#[track_caller]
fn listens(server: &MariaDb) {
    let ears = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
    eventually("it listens", || server.query(ears) == "1");
}

/// Returns the number of statements so far, by which processes look whether it is their turn.
fn looks(server: &MariaDb) -> u64 {
    let count = server.query("SHOW GLOBAL STATUS LIKE 'com_stmt_execute'");
    count.split('\t').next_back().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_hears_bells_looks_rarely() {
    let server = MariaDb::start();
    let waiting = Waiting::on(&server).await;
    let (before, begun) = (looks(&server), Instant::now());
    tokio::time::sleep(millis(3000)).await;
    let (looked, took) = (looks(&server) - before, begun.elapsed());
    // Two a second, and two in which each process looks what it is asked; without bells there are twenty.
    let most = 10 * (took.as_millis() as u64 / 1000 + 1);
    assert!(looked <= most, "{looked} in {took:?}");
    waiting.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ear_that_is_killed_is_replaced() {
    let server = MariaDb::start();
    let waiting = Waiting::on(&server).await;
    for _ in 0..5 {
        server.end_sessions();
        listens(&server);
    }
    waiting.ends().await;
}
