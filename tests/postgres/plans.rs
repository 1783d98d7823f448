//! The server looks up the rows of a request, however many others there are, and whatever the settings of the
//! role.

use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{begin, eventually, patient, soon};

const ROWS: u64 = 20_000;

/// Makes each kind of request: for one lock and for several, with and without waiters.
async fn requests(url: &str, between: impl FnOnce()) {
    let (locks, other) = (connected(patient(url)).await, connected(patient(url)).await);
    let mut between = Some(between);
    for _ in 0..2 {
        let guard = locks.lock("one").acquire().await.unwrap();
        let mut waiter = Box::pin(other.lock("one").acquire());
        assert!(begin(&mut waiter).is_pending());
        let refused = other.lock_all(["one", "two"]).try_acquire().await.unwrap();
        assert!(refused.is_none());
        guard.downgrade().await.unwrap().release().await.unwrap();
        let guard = soon(waiter).await.unwrap();
        guard.fencing_token().await.unwrap();
        guard.release().await.unwrap();
        for _ in 0..2 {
            let several = locks.lock_all(["one", "two", "three"]);
            several.acquire().await.unwrap().release().await.unwrap();
        }
        // The connection has made its plans.
        if let Some(between) = between.take() {
            between();
        }
    }
    locks.shutdown().await;
    other.shutdown().await;
}

/// Fails if the server reads as many rows as there are.
async fn look_up_rows(settings: &str) {
    let server = Postgres::start();
    server.execute(settings);
    let fill = format!(
        "INSERT INTO distributed_lock.held SELECT 'other:' || n, 'x', 1, n, now() + interval '1 h'
             FROM generate_series(1, {ROWS}) n;
         INSERT INTO distributed_lock.waiting (name, token, max_holders, ttl, asked_at, alive_until)
             SELECT 'other:' || n, 'x', 1, 1, now(), now() + interval '1 h' FROM generate_series(1, {ROWS}) n"
    );
    requests(&server.url(), || server.execute(&fill)).await;
    // A connection counts when it ends.
    eventually("the connections count", || {
        let inserted = "SELECT coalesce(sum(n_tup_ins), 0) FROM pg_stat_user_tables";
        server.query::<u64>(inserted) > 2 * ROWS + 10 && server.clients().is_empty()
    });
    let read = "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)
                     + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)";
    let read: u64 = server.query(read);
    assert!(read < ROWS / 2, "{read} rows are read");
    server.execute("TRUNCATE distributed_lock.held, distributed_lock.waiting");
}

#[tokio::test]
async fn rows_are_looked_up() {
    look_up_rows("").await;
}

#[tokio::test]
async fn rows_are_looked_up_whatever_the_settings_of_the_role() {
    let settings = ["indexscan", "indexonlyscan", "nestloop", "tidscan"];
    let off = settings.map(|name| format!("ALTER ROLE CURRENT_USER SET enable_{name} = off;"));
    look_up_rows(&off.concat()).await;
}
