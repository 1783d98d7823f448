//! A schema of an earlier version is upgraded by the first client that may, while clients of that version run; locks go
//! on with version 2, where none may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use lock_runtime::{Config, LockError, LockManager};
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use super::schema::{RIGHTS, role, works};
use lock_test_support::manager::{connected, refusal};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, millis, patient, soon};

const VERSION_1: &str = include_str!("version_1.sql");
const VERSION_2: &str = include_str!("version_2.sql");

fn version(server: &Postgres) -> String {
    server.query("SELECT obj_description('distributed_lock.waiting'::regclass, 'pg_class')")
}

/// Returns a connection as a client of version 1 makes it.
async fn client_of_version_1(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let comment =
        "SELECT obj_description(to_regnamespace('distributed_lock')::oid, 'pg_namespace')";
    let comment: String = client.query_one(comment, &[]).await.unwrap().get(0);
    assert_eq!(
        comment, "distributed locks, version 1",
        "it knows no other version"
    );
    let set = "SELECT distributed_lock.set_1(false)";
    client.batch_execute(set).await.unwrap();
    client
}

/// What a client of version 1 does with `lock:row`.
struct Early {
    client: Client,
    token: String,
}

impl Early {
    /// Returns `true` if the lock is held now.
    async fn wait(&self) -> bool {
        let wait =
            "SELECT answer FROM distributed_lock.wait_1($1, $2, 1, 6000000, NULL, 25000000, $3)";
        let asked = self
            .client
            .query_one(wait, &[&"lock:row", &self.token, &i64::MAX])
            .await;
        match asked {
            Ok(row) => row.get::<_, i32>(0) != 2,
            // It tries that again.
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => false,
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn release(&self) {
        let release =
            "SELECT held FROM distributed_lock.release_1(ARRAY[$1], ARRAY[$2], ARRAY[false])";
        let released = self
            .client
            .query_one(release, &[&"lock:row", &self.token])
            .await;
        assert_eq!(released.unwrap().get::<_, Vec<bool>>(0), [true]);
    }
}

/// Acquires the lock again and again, now and then over a new connection. Returns how often it did.
async fn compete(
    url: String,
    number: usize,
    inside: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
) -> usize {
    let mut holds = 0;
    while !ends.load(SeqCst) {
        let client = client_of_version_1(&url).await;
        let token = format!("early:{number}:{holds}");
        let early = Early { client, token };
        for _ in 0..5 {
            while !early.wait().await {
                tokio::time::sleep(millis(2)).await;
            }
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two callers hold the lock");
            tokio::time::sleep(millis(1)).await;
            inside.fetch_sub(1, SeqCst);
            early.release().await;
            holds += 1;
        }
    }
    holds
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_of_version_1_go_on_while_the_schema_is_upgraded() {
    let server = Postgres::start();
    server.execute(VERSION_1);
    role(&server);
    server.execute(RIGHTS);
    let (inside, ends) = (Arc::default(), Arc::default());
    let mut early = JoinSet::new();
    for n in 0..3 {
        early.spawn(compete(
            server.url_for("clerk"),
            n,
            Arc::clone(&inside),
            Arc::clone(&ends),
        ));
    }
    eventually("a holder", || server.is_held("row"));
    let mut managers = JoinSet::new();
    for _ in 0..6 {
        let (config, inside) = (patient(server.url()), Arc::clone(&inside));
        managers.spawn(async move {
            let locks = LockManager::connect(config).await.unwrap();
            for _ in 0..5 {
                let guard = locks.lock("row").wait(millis(20_000)).acquire();
                let guard = guard.await.unwrap();
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two callers hold the lock");
                tokio::time::sleep(millis(1)).await;
                inside.fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
            }
            locks.shutdown().await;
        });
    }
    soon(managers.join_all()).await;
    assert_eq!(version(&server), "distributed locks, version 3");
    let before = server.query::<usize>("SELECT last_value FROM distributed_lock.fence");
    eventually("more holders", || {
        server.query::<usize>("SELECT last_value FROM distributed_lock.fence") > before
    });
    ends.store(true, SeqCst);
    let holds = soon(early.join_all()).await;
    assert!(holds.iter().all(|holds| *holds > 0), "{holds:?}");
}

/// Later clients draw greater places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiter_of_version_1_keeps_its_place() {
    let server = Postgres::start();
    server.execute(VERSION_1);
    let early = async |token: &str| Early {
        client: client_of_version_1(&server.url()).await,
        token: token.to_owned(),
    };
    let (first, second) = (early("first").await, early("second").await);
    assert!(first.wait().await);
    assert!(!second.wait().await);
    let locks = connected(patient(server.url())).await;
    let third = tokio::spawn(locks.lock("row").wait(millis(20_000)).acquire());
    server.until_waiting("row", 2);
    first.release().await;
    assert!(second.wait().await, "it was there before the third");
    second.release().await;
    let third = soon(third).await.unwrap().unwrap();
    third.release().await.unwrap();
}

/// The sequence of version 1 can't be read there, and is not needed any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_repairs_a_standby_that_was_promoted_with_version_1() {
    let mut server = Postgres::start();
    let mut standby = server.standby();
    server.execute(VERSION_1);
    server.until_replayed_by(&standby);
    server.kill();
    standby.promote();
    works(&standby.url()).await;
}

#[tokio::test]
async fn role_that_may_not_upgrade_is_told_what_to_run() {
    let server = Postgres::start();
    server.execute(VERSION_1);
    role(&server);
    server.execute(RIGHTS);
    let forbidden = Config::new(server.url()).create_schema(false);
    for config in [Config::new(server.url_for("clerk")), forbidden] {
        let (error, text) = refusal(config, "no secret").await;
        assert!(
            matches!(error, LockError::InvalidConfig { .. }),
            "{error:?}"
        );
        for words in [
            "version 1",
            "lock_runtime::postgres::schema(\"distributed_lock\")",
        ] {
            assert!(text.contains(words), "{text}");
        }
    }
    server.execute(&lock_runtime::postgres::schema("distributed_lock").unwrap());
    works(&server.url_for("clerk")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_go_on_with_version_2_until_a_role_may_upgrade_it() {
    let server = Postgres::start();
    server.execute(VERSION_2);
    role(&server);
    server.execute(RIGHTS);
    let clerk = connected(patient(server.url_for("clerk"))).await;
    let forbidden = connected(patient(Config::new(server.url()).create_schema(false))).await;
    let both = async || {
        let guard = clerk.lock("row").acquire().await.unwrap();
        let waiter = tokio::spawn(forbidden.lock("row").wait(millis(10_000)).acquire());
        server.until_waiting("row", 1);
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.fencing_token().await.unwrap();
        guard.release().await.unwrap();
    };
    both().await;
    works(&server.url_for("clerk")).await;
    assert_eq!(version(&server), "distributed locks, version 2");
    works(&server.url()).await;
    assert_eq!(version(&server), "distributed locks, version 3");
    // Both have prepared the statements of version 2, and the role has the rights that it needed then.
    both().await;
    works(&server.url_for("clerk")).await;
}

/// A process that upgrades the schema may hang.
#[tokio::test]
async fn upgrade_that_cannot_be_made_now_is_left_to_others() {
    let server = Postgres::start();
    server.execute(VERSION_2);
    let other = server.client().await;
    let lock = "SELECT pg_advisory_lock(hashtextextended('distributed_lock schema', 0))";
    other.batch_execute(lock).await.unwrap();
    works(&server.url()).await;
    assert_eq!(version(&server), "distributed locks, version 2");
}
