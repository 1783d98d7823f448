//! Fencing tokens grow, whatever comes between.

use std::time::{Duration, UNIX_EPOCH};

use lock_test_support::clocks::{Clock, Clocks};
use lock_test_support::manager::{connected, use_once};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, patient};

const HOUR: Duration = Duration::from_secs(3600);

/// Fails unless the server's clock is ahead by that many seconds.
fn is_ahead(server: &Postgres, by: i64) {
    let ours = || UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    let before = ours();
    let theirs: i64 = server.query("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint");
    let meanwhile = before - 1..=ours() + 1;
    assert!(meanwhile.contains(&(theirs - by)), "{theirs}");
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
        is_ahead(&server, expected);
        for _ in 0..2 {
            let guard = locks.lock("row").acquire().await.unwrap();
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
        use_once(&other, &format!("other:{round}")).await;
    }
    locks.shutdown().await;
    other.shutdown().await;
}
