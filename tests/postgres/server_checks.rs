//! `check_servers` warns about settings that endanger locks, and about what makes them slow.

use lock_runtime::{Config, LockError, LockManager, WarningKind};

use lock_test_support::manager::connected;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, millis, patient, soon};

/// Returns the kinds of the warnings, and their texts.
async fn warnings(config: impl Into<Config>) -> (Vec<WarningKind>, String) {
    let locks = connected(patient(config)).await;
    let warnings = locks.check_servers().await;
    locks.shutdown().await;
    let text: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    (
        warnings.iter().map(|warning| warning.kind()).collect(),
        text.join("\n"),
    )
}

/// Asserts that the only warnings are of that kind, and that one contains the words.
async fn warns(config: impl Into<Config>, kind: WarningKind, words: &str) {
    let (kinds, text) = warnings(config).await;
    assert!(
        kinds.contains(&kind) && text.contains(words),
        "{kinds:?}: {text}"
    );
    assert!(
        kinds.iter().all(|other| *other == kind),
        "{kinds:?}: {text}"
    );
}

#[tokio::test]
async fn server_with_default_settings_has_no_warnings() {
    let server = Postgres::start();
    let (kinds, text) = warnings(server.url()).await;
    assert!(kinds.is_empty(), "{text}");
    let strict = Config::new(server.url()).refuse_unsafe_servers(true);
    LockManager::connect(patient(strict)).await.unwrap();
}

#[tokio::test]
async fn server_that_does_not_flush_is_reported() {
    let server = Postgres::with(&[("fsync", "off")]);
    warns(server.url(), WarningKind::NotFlushed, "`fsync`").await;
    let strict = Config::new(server.url()).refuse_unsafe_servers(true);
    let refused = LockManager::connect(patient(strict)).await.unwrap_err();
    assert!(
        matches!(refused, LockError::UnsafeServer { .. }),
        "{refused}"
    );

    let server = Postgres::with(&[("full_page_writes", "off")]);
    warns(server.url(), WarningKind::NotFlushed, "`full_page_writes`").await;
}

/// The library flushes what it grants nevertheless.
#[tokio::test]
async fn asynchronous_commits_lose_no_lock() {
    let mut server = Postgres::with(&[("synchronous_commit", "off"), ("wal_writer_delay", "10s")]);
    // Each crash may undo the release before it.
    server.leave_locks();
    let locks = connected(patient(server.url())).await;
    for n in 0..5 {
        let guard = locks.lock(format!("row:{n}")).acquire().await.unwrap();
        server.kill();
        server.restart();
        assert!(
            server.is_held(&format!("row:{n}")),
            "the lock was on the disk"
        );
        // The server may still be starting.
        drop(guard);
    }
}

#[tokio::test]
async fn asynchronous_commits_are_reported() {
    let server = Postgres::with(&[("synchronous_commit", "off")]);
    warns(
        server.url(),
        WarningKind::NotFlushed,
        "`synchronous_commit`",
    )
    .await;
}

#[tokio::test]
async fn asynchronous_standby_is_reported() {
    let mut server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let _standby = server.standby();
    let replicas = "SELECT count(*) FROM pg_stat_replication";
    eventually("the standby is connected", || {
        server.query::<usize>(replicas) == 1
    });
    let danger = WarningKind::AsynchronousStandby;
    warns(server.url(), danger, "none of its 1 standbys").await;
    // Locks turn it on for themselves, and would wait for a synchronous standby.
    server.execute("ALTER ROLE postgres SET synchronous_commit = 'off'");
    let (kinds, text) = warnings(server.url()).await;
    assert_eq!(kinds, [WarningKind::NotFlushed, danger], "{text}");
    server.wait_for_standby();
    warns(
        server.url(),
        WarningKind::NotFlushed,
        "`synchronous_commit`",
    )
    .await;
    server.execute("ALTER ROLE postgres SET synchronous_commit = 'local'");
    warns(server.url(), danger, "`synchronous_commit` is `local`").await;
    server.execute("ALTER ROLE postgres RESET synchronous_commit");
    let (kinds, text) = warnings(server.url()).await;
    assert!(kinds.is_empty(), "{text}");
    let two = Config::new(server.url()).replicas(2);
    warns(two, danger, "`replicas` for 2").await;
}

/// As when its disk is full, or when it was demoted.
#[tokio::test]
async fn server_that_became_read_only_is_reported() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    server.alter("default_transaction_read_only", "on");
    let warnings = locks.check_servers().await;
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert_eq!(warning.kind(), WarningKind::ConnectedToReplica);
    assert!(
        warning.to_string().contains("accepts only reads"),
        "{warning}"
    );
}

/// A transaction that reads keeps the rows that it may see, and one that writes those that it may delete.
#[tokio::test]
async fn old_snapshot_is_reported() {
    let server = Postgres::start();
    // Shows each transaction as if it had begun two hours earlier.
    server.execute(
        "CREATE SCHEMA old;
         CREATE VIEW old.pg_stat_activity AS SELECT pid, datname, backend_type, backend_xmin, backend_xid, backend_start,
            xact_start - interval '2 hours' AS xact_start FROM pg_catalog.pg_stat_activity WHERE pid <> pg_backend_pid();
         CREATE TABLE t (n int);
         ALTER ROLE postgres SET search_path = old, pg_catalog",
    );
    let (kinds, text) = warnings(server.url()).await;
    assert!(kinds.is_empty(), "{text}");
    let snapshot = server.open_snapshot().await;
    warns(server.url(), WarningKind::DeadRows, "120 minutes").await;
    drop(snapshot);
    let writer = server.client().await;
    let write = "BEGIN; INSERT INTO public.t VALUES (1)";
    writer.batch_execute(write).await.unwrap();
    warns(server.url(), WarningKind::DeadRows, "120 minutes").await;
}

/// A check that finds nothing says so only if it was made.
#[tokio::test]
async fn server_that_does_not_answer_is_reported_in_time() {
    let server = Postgres::start();
    let config = Config::new(server.url()).connect_timeout(millis(1000));
    let locks = connected(config).await;
    server.execute(
        "CREATE OR REPLACE FUNCTION distributed_lock.replicas_1() RETURNS int LANGUAGE sql AS
            'SELECT 0 FROM (SELECT pg_sleep(60)) s'",
    );
    let warnings = soon(locks.check_servers()).await;
    let kinds: Vec<_> = warnings.iter().map(|warning| warning.kind()).collect();
    assert_eq!(kinds, [WarningKind::NotChecked], "{warnings:?}");
}

/// Most calls do not wait, and would not show it.
#[tokio::test]
async fn queue_that_does_not_work_is_found_at_once() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    server.execute(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''bad magic number'' USING ERRCODE = ''XX000''; END';
         CREATE TRIGGER broken BEFORE INSERT ON distributed_lock.waiting EXECUTE FUNCTION broken()",
    );
    let warnings = locks.check_servers().await;
    let kinds: Vec<_> = warnings.iter().map(|warning| warning.kind()).collect();
    assert_eq!(kinds, [WarningKind::NoQueue], "{warnings:?}");
    let text = warnings[0].to_string();
    assert!(text.contains("bad magic number"), "{text}");
    let error = LockManager::connect(patient(server.url())).await;
    let error = error.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(
        error.is_unavailable() && text.contains("bad magic number"),
        "{text}"
    );
    assert!(server.leftovers().is_empty());
}

/// The server's own words, and no advice for Redis.
#[tokio::test]
async fn settings_that_cannot_be_read_are_reported_with_the_cause() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    server.execute("ALTER FUNCTION distributed_lock.replicas_1() RENAME TO gone");
    let warnings = locks.check_servers().await;
    let text: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let not_checked = text.iter().find(|text| text.contains("can't be read"));
    let not_checked = not_checked.unwrap_or_else(|| panic!("{text:?}"));
    assert!(not_checked.contains("replicas_1()"), "{not_checked}");
    assert!(!not_checked.contains("+info"), "{not_checked}");
}

#[tokio::test]
async fn autovacuum_off_is_reported() {
    let server = Postgres::with(&[("autovacuum", "off")]);
    warns(server.url(), WarningKind::DeadRows, "`autovacuum`").await;
}

#[tokio::test]
async fn pooler_is_reported() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    warns(pooler.url(), WarningKind::Pooler, "pooler").await;
}
