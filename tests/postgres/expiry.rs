//! A lease that ends by itself, as that of a process that has died, serves the queue first: no newcomer overtakes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use lock_runtime::LockManager;
use tokio::task::JoinSet;

use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{NOISE, millis, patient, within};

const LEFT: Duration = millis(300);

/// Tries all the time until the end. Counts how often it acquires the lock.
async fn poll(locks: LockManager, ends: Arc<AtomicBool>, held: Arc<AtomicUsize>) {
    while !ends.load(SeqCst) {
        if let Some(guard) = locks.lock("row").try_acquire().await.unwrap() {
            held.fetch_add(1, SeqCst);
            guard.release().await.unwrap();
        }
        tokio::time::sleep(millis(1)).await;
    }
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_a_dead_holders_lease_serves_the_queue_before_newcomers() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    for _ in 0..8 {
        server.execute(&format!(
            "INSERT INTO distributed_lock.held VALUES ('lock:row', 'dead', 1, distributed_lock.number_1(),
                clock_timestamp() + interval '{} ms')",
            LEFT.as_millis()
        ));
        let waiter = tokio::spawn(locks.lock("row").wait(millis(20_000)).acquire());
        server.until_waiting("row", 1);
        let (ends, held) = (Arc::default(), Arc::default());
        let mut pollers = JoinSet::new();
        for _ in 0..2 {
            let newcomer = connected(patient(server.url())).await;
            pollers.spawn(poll(newcomer, Arc::clone(&ends), Arc::clone(&held)));
        }
        let guard = within(LEFT + NOISE, waiter).await.unwrap().unwrap();
        ends.store(true, SeqCst);
        assert_eq!(held.load(SeqCst), 0, "newcomers came first");
        within(millis(10_000), pollers.join_all()).await;
        guard.release().await.unwrap();
    }
}
