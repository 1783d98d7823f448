//! Fencing tokens grow, whatever comes between.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_test_support::clocks::{Clock, Clocks};
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, millis, patient};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns by how many seconds the server's clock is ahead.
fn ahead(server: &Postgres) -> i64 {
    let theirs: i64 = server.query("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint");
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    theirs - ours.as_secs() as i64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fencing_tokens_grow_whatever_the_clock_of_the_server_says() {
    let server = Postgres::by(Clocks::correct(), &[]);
    let clocks = server.clocks().expect("it has its own");
    let locks = connected(patient(server.url())).await;
    let mut last = 0;
    for (set, expected) in [(0_i32, 0), (-1, -3600), (2, 3600), (-2, -3600), (1, 0)] {
        match set {
            0.. => clocks.forward(&[Clock::Wall], HOUR * set.unsigned_abs()),
            _ => clocks.back(&[Clock::Wall], HOUR * set.unsigned_abs()),
        }
        let off = ahead(&server) - expected;
        assert!((-1..=1).contains(&off), "{off}");
        for _ in 0..2 {
            let guard = locks.lock("row").wait(millis(10_000)).acquire().await;
            let guard = guard.unwrap();
            let token = guard.fencing_token().await.unwrap();
            assert!(token > last, "{token} after {last}");
            last = token;
            guard.release().await.unwrap();
        }
    }
}

/// The mutex of the sequence is that of a session, which a request that fails does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn canceled_request_keeps_no_number_from_others() {
    const MUTEX: &str = "hashtextextended('distributed_lock fence', 0)";

    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let client = server.client().await;
    let waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory'";
    for round in 0..5 {
        // Far behind the clock, so that the next number takes the mutex.
        let behind =
            format!("SELECT pg_advisory_lock({MUTEX}), setval('distributed_lock.fence', 1)");
        client.batch_execute(&behind).await.unwrap();
        let call = tokio::spawn(locks.lock(format!("row:{round}")).acquire());
        let mut pid = None;
        eventually("the request waits for the mutex", || {
            pid = server.rows(waits).concat().pop();
            pid.is_some()
        });
        // It is canceled when it has the mutex.
        let cancel = format!(
            "DO $$ BEGIN PERFORM pg_advisory_unlock({MUTEX}); PERFORM pg_cancel_backend({}); END $$",
            pid.unwrap()
        );
        client.batch_execute(&cancel).await.unwrap();
        drop(call.await.unwrap().unwrap());
        client
            .batch_execute("SELECT setval('distributed_lock.fence', 1)")
            .await
            .unwrap();
        let row = other.lock(format!("other:{round}")).wait(millis(5000));
        drop(row.acquire().await.unwrap());
    }
    locks.shutdown().await;
    other.shutdown().await;
}
