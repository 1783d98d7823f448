//! Each statement of a request sees what was committed before it, whatever the settings of the server.

use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, millis, patient};

/// A transaction of a stricter isolation level sees the state of its begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_sees_the_holder_that_it_waited_for() {
    let server = Postgres::with(&[("default_transaction_isolation", "repeatable read")]);
    let locks = connected(patient(server.url())).await;
    let other = server.client().await;
    let hold =
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('distributed_lock lock:row', 0));
        INSERT INTO distributed_lock.held
            VALUES ('lock:row', 'other', 1, 1, clock_timestamp() + interval '30 s')";
    other.batch_execute(hold).await.unwrap();
    let attempt = tokio::spawn(locks.lock("row").try_acquire());
    eventually(millis(20_000), "a request that waits for the mutex", || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        server.query::<usize>(waiting) == 1
    });
    other.batch_execute("COMMIT").await.unwrap();
    let acquired = attempt.await.unwrap().unwrap();
    assert!(acquired.is_none(), "two holders");
    server.delete_lock("row");
}
