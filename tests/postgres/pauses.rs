//! Processes that are paused at random while they hold a lock and write: with `ensure` no commit is stale,
//! and without it some are.

use std::time::Duration;

use tokio_postgres::NoTls;

use super::fixture::run;
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::rng::Rng;
use lock_test_support::time::{millis, patient};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

const TTL: Duration = millis(300);
const LONG: Duration = Duration::from_secs(60);
const PROCESSES: u64 = 3;
/// A pause hits a holder between its read and its write in about every third round. `LOCK_PAUSES` sets the
/// number.
const ROUNDS: usize = 10;

const TABLES: &str = "
    CREATE TABLE account (version bigint NOT NULL);
    INSERT INTO account VALUES (0);
    CREATE TABLE write (read bigint NOT NULL, found bigint NOT NULL)";

/// In each process: reads the version under the lock, and writes the next one, again and again.
fn write_for_ever(server: &str, ensured: bool) {
    block_on(async {
        let locks = connected(patient(server)).await;
        let (mut client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        report_event("ready");
        loop {
            // The server gives the lock to others while this process is paused in the queue.
            let Ok(guard) = locks.lock("account").ttl(TTL).wait(LONG).acquire().await else {
                continue;
            };
            let Ok(proof) = guard.transaction_proof().await else {
                continue;
            };
            let select = "SELECT version FROM account";
            let read: i64 = client.query_one(select, &[]).await.unwrap().get(0);
            tokio::time::sleep(millis(20)).await;
            let transaction = client.transaction().await.unwrap();
            if ensured && run(&transaction, &proof).await.is_err() {
                continue;
            }
            let write = "WITH next AS (UPDATE account SET version = version + 1 RETURNING version)
                INSERT INTO write SELECT $1, version - 1 FROM next";
            transaction.execute(write, &[&read]).await.unwrap();
            transaction.commit().await.unwrap();
            drop(guard.release().await);
        }
    });
}

/// Returns the numbers of all writes and of stale ones, after enough pauses: without `ensure` once a write
/// was stale.
fn pause_at_random<T: Fn() + Copy>(test: T, ensured: bool) -> Option<(usize, usize)> {
    if let Some(arguments) = arguments() {
        write_for_ever(&arguments[0], arguments[1] == "true");
        return None;
    }
    let mut server = Postgres::start();
    server.leave_locks();
    server.execute(TABLES);
    let start = |_| Worker::start(test, &[&server.url(), &ensured.to_string()]);
    let workers: Vec<_> = (0..PROCESSES).map(start).collect();
    workers
        .iter()
        .for_each(|worker| drop(worker.expect("ready")));
    let all = || server.query::<usize>("SELECT count(*) FROM write");
    let stale = || server.query::<usize>("SELECT count(*) FROM write WHERE read <> found");
    let mut rng = Rng::random();
    let least = std::env::var("LOCK_PAUSES").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    for round in 0..least.max(100) {
        let is_enough = match ensured {
            true => round >= least && all() > 10,
            false => stale() > 0,
        };
        if is_enough {
            break;
        }
        let worker = &workers[rng.below(PROCESSES) as usize];
        worker.pause();
        std::thread::sleep(TTL * 2);
        worker.resume();
        std::thread::sleep(millis(20 + rng.below(60)));
    }
    drop(workers);
    Some((all(), stale()))
}

#[test]
fn no_commit_is_stale_with_ensure() {
    if let Some((all, stale)) = pause_at_random(no_commit_is_stale_with_ensure, true) {
        println!("{all} writes, {stale} of them stale");
        assert!(all > 10, "{all} writes");
        assert_eq!(stale, 0, "of {all} writes");
    }
}

/// The control.
#[test]
fn some_commits_are_stale_without_ensure() {
    if let Some((all, stale)) = pause_at_random(some_commits_are_stale_without_ensure, false) {
        println!("{all} writes, {stale} of them stale");
        assert!(stale > 0, "of {all} writes");
    }
}
