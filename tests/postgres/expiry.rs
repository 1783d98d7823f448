//! A lease that ends by itself, as that of a process that has died, serves the queue first: no newcomer overtakes it.

use std::time::Duration;

use lock_test_support::manager::connected;
use lock_test_support::pollers::Pollers;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{NOISE, millis, patient, soon, within};

const LEFT: Duration = millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_a_dead_holders_lease_serves_the_queue_before_newcomers() {
    let server = Postgres::start();
    let connect = || connected(patient(server.url()));
    let (locks, newcomers) = (connect().await, [connect().await, connect().await]);
    for _ in 0..8 {
        server.execute(&format!(
            "INSERT INTO distributed_lock.held VALUES ('lock:row', 'dead', 1, distributed_lock.number_1(),
                clock_timestamp() + interval '{} ms')",
            LEFT.as_millis()
        ));
        let waiter = tokio::spawn(locks.lock("row").wait(millis(20_000)).acquire());
        server.until_waiting("row", 1);
        let pollers = Pollers::start(newcomers.clone(), |locks| locks.lock("row"));
        let guard = within(LEFT + NOISE, waiter).await.unwrap().unwrap();
        assert_eq!(pollers.holds(), 0, "newcomers came first");
        guard.release().await.unwrap();
        soon(pollers.end()).await;
    }
}
