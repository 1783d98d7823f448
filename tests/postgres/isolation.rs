//! Each statement of a request sees what was committed before it, whatever the settings of the server.

use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{PATIENCE, eventually, millis, patient};

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
    eventually("a request that waits for the mutex", || {
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        server.query::<usize>(waiting) == 1
    });
    other.batch_execute("COMMIT").await.unwrap();
    let acquired = attempt.await.unwrap().unwrap();
    assert!(acquired.is_none(), "two holders");
    server.delete_lock("row");
}

/// With that setting a backslash is an escape in the texts of functions, too.
#[tokio::test]
async fn replicas_are_counted_whatever_a_backslash_means() {
    let mut server = Postgres::with(&[
        ("standard_conforming_strings", "off"),
        ("escape_string_warning", "off"),
    ]);
    connected(server.url()).await.shutdown().await;
    let _standby = server.standby();
    server.wait_for_standby();
    let locks = connected(patient(server.url())).await;
    for (names, replicas, enough) in [
        ("*", 1, true),
        ("FIRST 1 (standby)", 1, true),
        ("ANY 1 (standby, other)", 1, true),
        ("1(standby)", 1, true),
        ("FIRST 1 (standby)", 2, false),
    ] {
        server.alter("synchronous_standby_names", names);
        let wait = if enough { PATIENCE } else { millis(300) };
        let acquire = locks.lock("row").replicas(replicas).wait(wait);
        match acquire.acquire().await {
            Ok(guard) if enough => guard.release().await.unwrap(),
            Err(error) if !enough => assert!(error.is_unavailable(), "{error:?}"),
            other => panic!("`{names}` with {replicas}: {other:?}"),
        }
    }
    locks.shutdown().await;
}
