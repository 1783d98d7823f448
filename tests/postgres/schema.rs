//! The schema is made on first use, by any number of managers at once, or by a migration tool beforehand.

use lock_runtime::{Config, LockError, LockManager, Report};
use tokio::task::JoinSet;

use lock_test_support::manager::{connected, refusal, until_renewed, use_once};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, millis, patient, soon};

/// The rights that the guide gives to a service.
pub const RIGHTS: &str = "
    GRANT USAGE ON SCHEMA distributed_lock TO clerk;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distributed_lock TO clerk;
    GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distributed_lock TO clerk;
    GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA distributed_lock TO clerk";

pub fn role(server: &Postgres) {
    server.execute("CREATE ROLE clerk LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC");
}

/// Acquires, waits, renews and releases: everything that a service needs.
pub async fn works(url: &str) {
    let (locks, other) = (connected(patient(url)).await, connected(patient(url)).await);
    let ttl = millis(12_000);
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    until_renewed([&guard]).await;
    let token = guard.fencing_token().await.unwrap();
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.fencing_token().await.unwrap() > token);
    guard.release().await.unwrap();
    let reader = locks.lock("row").read().acquire().await.unwrap();
    let beside = other.lock("row").read().acquire().await.unwrap();
    reader.release().await.unwrap();
    beside.release().await.unwrap();
    locks.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn managers_that_start_together_make_the_schema_once() {
    let server = Postgres::start();
    for _ in 0..2 {
        let mut managers = JoinSet::new();
        for n in 0..6 {
            let config = patient(server.url());
            managers.spawn(async move {
                let locks = connected(config).await;
                use_once(&locks, &format!("row:{n}")).await;
                locks.shutdown().await;
            });
        }
        managers.join_all().await;
        server.execute("DROP SCHEMA distributed_lock CASCADE");
    }
}

/// The first to come makes it, and may be another role.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_that_was_made_meanwhile_is_used() {
    let server = Postgres::start();
    role(&server);
    server.execute("GRANT CREATE ON DATABASE postgres TO clerk");
    let mut first = server.client().await;
    let first = first.transaction().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('distributed_lock schema', 0))";
    first.batch_execute(lock).await.unwrap();
    let url = server.url_for("clerk");
    let second = tokio::spawn(async move { works(&url).await });
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND usename = 'clerk'";
    eventually("the second waits", || server.query::<usize>(waits) > 0);
    let ddl = lock_runtime::postgres::schema("distributed_lock").unwrap();
    first.batch_execute(&(ddl + RIGHTS)).await.unwrap();
    // As long as the connect timeout, that one may wait for a slow server.
    tokio::time::sleep(millis(2500)).await;
    first.commit().await.unwrap();
    second.await.unwrap();
}

/// A process that makes the schema may hang.
#[tokio::test]
async fn lock_of_the_schema_that_is_kept_is_unavailable() {
    let server = Postgres::start();
    let first = server.client().await;
    let lock = "SELECT pg_advisory_lock(hashtextextended('distributed_lock schema', 0))";
    first.batch_execute(lock).await.unwrap();
    let config = Config::new(server.url()).connect_timeout(millis(500));
    let error = LockManager::connect(config).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'";
    eventually("no backend waits for ever", || {
        server.query::<usize>(waits) == 0
    });
}

#[test]
fn schema_has_a_plain_name() {
    for name in ["", "Locks", "1st", "a-b", "x\"; DROP TABLE users; --"] {
        let error = lock_runtime::postgres::schema(name).unwrap_err();
        assert!(matches!(error, LockError::InvalidConfig { .. }), "{error}");
    }
}

#[tokio::test]
async fn schema_of_a_migration_tool_is_used() {
    let server = Postgres::start();
    let ddl = lock_runtime::postgres::schema("distributed_lock").unwrap();
    server.execute(&ddl);
    works(&server.url()).await;
}

/// A migration may run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_go_on_while_the_schema_is_made_again() {
    let server = Postgres::start();
    let (locks, other) = (
        connected(patient(server.url())).await,
        connected(patient(server.url())).await,
    );
    let guard = locks.lock("row").acquire().await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    server.until_waiting("row", 1);
    server.execute(&lock_runtime::postgres::schema("distributed_lock").unwrap());
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.fencing_token().await.unwrap() > token);
    guard.release().await.unwrap();
    works(&server.url()).await;
}

#[tokio::test]
async fn role_with_the_least_rights_works() {
    let server = Postgres::start();
    role(&server);
    server.execute(&lock_runtime::postgres::schema("distributed_lock").unwrap());
    server.execute(RIGHTS);
    works(&server.url_for("clerk")).await;
}

#[tokio::test]
async fn role_without_rights_is_told_what_to_run() {
    let server = Postgres::start();
    role(&server);
    // It may not make the schema.
    let (error, text) = refusal(server.url_for("clerk"), "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("lock_runtime::postgres::schema"), "{text}");
    // It may not use it.
    server.execute(&lock_runtime::postgres::schema("distributed_lock").unwrap());
    let (error, text) = refusal(server.url_for("clerk"), "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("rights"), "{text}");
    // A missing right is not remembered.
    server.execute(RIGHTS);
    works(&server.url_for("clerk")).await;
}

#[tokio::test]
async fn schema_is_not_made_against_the_users_will() {
    let server = Postgres::start();
    let config = Config::new(server.url()).create_schema(false);
    let (error, text) = refusal(config, "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("lock_runtime::postgres::schema"), "{text}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'distributed_lock'";
    assert_eq!(server.query::<usize>(schemas), 0);
}

#[tokio::test]
async fn schema_of_another_version_is_refused_with_a_remedy() {
    let server = Postgres::start();
    let ddl = lock_runtime::postgres::schema("distributed_lock").unwrap();
    server.execute(&ddl);
    let run =
        "run the statements that `lock_runtime::postgres::schema(\"distributed_lock\")` returns";
    for (version, remedy) in [(2, "update this client"), (0, run)] {
        let comment = format!("distributed locks, version {version}");
        server.execute(&format!(
            "COMMENT ON SCHEMA distributed_lock IS '{comment}'"
        ));
        for create in [true, false] {
            let config = Config::new(server.url()).create_schema(create);
            let (error, text) = refusal(config, "no secret").await;
            assert!(
                matches!(error, LockError::InvalidConfig { .. }),
                "{error:?}"
            );
            for words in [&*format!("version {version}, and"), "needs 1;", remedy] {
                assert!(text.contains(words), "{text}");
            }
        }
        let found = "SELECT obj_description('distributed_lock'::regnamespace, 'pg_namespace')";
        assert_eq!(server.query::<String>(found), comment);
    }
    server.execute(&ddl);
    works(&server.url()).await;
}

#[tokio::test]
async fn schema_of_something_else_is_left_alone() {
    let server = Postgres::start();
    server.execute("CREATE SCHEMA distributed_lock; CREATE TABLE distributed_lock.held (name int)");
    let (error, text) = refusal(server.url(), "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}: {text}"
    );
    server.execute("DROP SCHEMA distributed_lock CASCADE");
}

#[tokio::test]
async fn parameter_names_another_schema() {
    let server = Postgres::start();
    let url = format!("{}?schema=shop_lock", server.url());
    works(&url).await;
    let schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%lock%'";
    assert_eq!(server.rows(schemas), [["shop_lock"]]);
    // Locks of another schema are other locks.
    let one = connected(patient(url.as_str())).await;
    let two = connected(patient(server.url())).await;
    let guard = one.lock("row").acquire().await.unwrap();
    use_once(&two, "row").await;
    guard.release().await.unwrap();
}

/// A schema that was dropped takes its locks along, and the next connection makes it again.
#[tokio::test]
async fn dropped_schema_is_made_again() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let guard = locks.lock("row").ttl(millis(1200)).acquire().await.unwrap();
    server.execute("DROP SCHEMA distributed_lock CASCADE");
    soon(guard.lost()).await;
    let again = async {
        loop {
            // The first request may be the one that finds no schema.
            if let Ok(guard) = locks.lock("row").acquire().await {
                return guard;
            }
        }
    };
    let again = soon(again).await;
    assert!(server.is_held("row"));
    again.release().await.unwrap();
}

/// Rows that nobody asks for any more go away.
#[tokio::test]
async fn ended_rows_are_removed() {
    let server = Postgres::start();
    works(&server.url()).await;
    server.execute(
        "INSERT INTO distributed_lock.held SELECT 'dead:' || n, 'x', 1, n, now() - interval '2 h'
             FROM generate_series(1, 2500) n;
         INSERT INTO distributed_lock.waiting (name, token, max_holders, ttl, asked_at, alive_until)
             SELECT 'dead:' || n, 'x', 1, 1, now() - interval '2 h', now() - interval '2 h'
             FROM generate_series(1, 2500) n",
    );
    let ended = "SELECT (SELECT count(*) FROM distributed_lock.held)
                      + (SELECT count(*) FROM distributed_lock.waiting)";
    let locks = connected(patient(server.url())).await;
    // At most 1,000 of each kind with one request.
    for _ in 0..4 {
        use_once(&locks, "row").await;
    }
    eventually("the rows are gone", || server.query::<usize>(ended) == 0);
    locks.shutdown().await;
}

/// Returns the statements of the guide for a role.
fn rights_in_the_guide(role: &str) -> String {
    let guide = include_str!("../../lock-runtime/src/guide/deployment.md");
    let lines = guide.lines().map(str::trim);
    let of_role =
        lines.filter(|line| line.starts_with("GRANT") && line.ends_with(&format!("TO {role};")));
    of_role.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_sees_the_locks_and_can_take_none() {
    let server = Postgres::start();
    let silent = || patient(server.url()).report(Report::Off);
    let (locks, other) = (connected(silent()).await, connected(silent()).await);
    server.execute("CREATE ROLE reader LOGIN");
    let rights = rights_in_the_guide("reader");
    assert_eq!(rights.matches("GRANT").count(), 2);
    server.execute(&rights);
    let guard = locks.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    server.until_waiting("row", 1);
    server.execute(&format!(
        "SELECT distributed_lock.report_1('{}', E'1\\torders\\t2.3.1\\tweb-7\\t812\\t1795536000\\nc\\t1');
         INSERT INTO distributed_lock.held SELECT name, 'x', 1, 1, until FROM (VALUES
            ('lock:ended', now() - interval '1 s'), ('lock:theirs', now() + interval '1 h'),
            ('lock:forever', 'infinity')) h(name, until)",
        locks.process_id()
    ));
    let shown = "SET ROLE reader;
        SELECT name, state, process, since > now() - interval '1 min', lease_left < '2 h', place
        FROM distributed_lock.locks ORDER BY name, place NULLS FIRST";
    let waits = format!("process {}", other.process_id());
    assert_eq!(
        server.rows(shown),
        [
            ["lock:forever", "holds", "another client", "", "", ""],
            [
                "lock:row",
                "holds",
                "orders 2.3.1 at web-7, pid 812",
                "t",
                "t",
                ""
            ],
            ["lock:row", "waits", &waits, "t", "", "1"],
            ["lock:theirs", "holds", "another client", "", "t", ""],
        ]
    );
    for refused in [
        "SELECT token FROM distributed_lock.held",
        "SELECT token FROM distributed_lock.waiting",
        "SELECT report FROM distributed_lock.process",
        "SELECT distributed_lock.take_1('lock:row', 'x', 0)",
        "SELECT distributed_lock.report_1('0000001', '1')",
        "DELETE FROM distributed_lock.held",
    ] {
        let error = server.try_execute(&format!("SET ROLE reader; {refused}"));
        let error = error.unwrap_err();
        assert!(error.contains("permission denied"), "`{refused}`: {error}");
    }
    server.execute("DELETE FROM distributed_lock.held WHERE token = 'x'");
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// With the rights that the runbook gives, and as `locks` looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewer_sees_the_locks_and_can_take_none() {
    let server = Postgres::start();
    let locks = connected(patient(server.url()).service("orders")).await;
    server.execute("CREATE ROLE viewer LOGIN");
    let runbook = include_str!("../../lock-runtime/src/guide/runbook.md");
    let rights = runbook.lines().filter(|line| line.ends_with(" TO viewer;"));
    server.execute(&rights.collect::<String>());
    let guard = locks.lock("row").acquire().await.unwrap();
    let config = || patient(server.url_for("viewer"));
    let refused = LockManager::connect(config()).await.unwrap_err();
    assert!(refused.to_string().contains("lacks rights"), "{refused}");

    let looks = config().check_permissions(false).create_schema(false);
    let viewer = connected(looks).await;
    let seen = async {
        loop {
            let found = viewer.inspect("row").await.unwrap();
            if let Some(info) = found.holders()[0].process_info() {
                return info.service().to_owned();
            }
        }
    };
    assert_eq!(soon(seen).await, "orders");
    assert_eq!(viewer.list("").await.unwrap().len(), 1);
    assert_eq!(viewer.processes().await.unwrap().len(), 1);
    let acquired = viewer.lock("other").acquire().await.err().unwrap();
    let revoke = viewer.revoke("row").grace(millis(0)).force();
    for error in [acquired, revoke.await.unwrap_err()] {
        let words = format!("{error:?}");
        assert!(words.contains("permission denied"), "{words}");
    }
    guard.release().await.unwrap();
}

/// As the guide shows it for psql.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_with_the_rights_of_a_service_takes_a_lock() {
    let server = Postgres::start();
    let (locks, other) = (
        connected(patient(server.url())).await,
        connected(patient(server.url())).await,
    );
    role(&server);
    let rights = rights_in_the_guide("app").replace("TO app;", "TO clerk;");
    assert_eq!(rights.matches("GRANT").count(), 4);
    server.execute(&rights);
    let guard = locks.lock("order:42").acquire().await.unwrap();
    let before = guard.fencing_token().await.unwrap();
    let waiter = tokio::spawn(other.lock("order:42").acquire());
    server.until_waiting("order:42", 1);
    let guide = include_str!("../../lock-runtime/src/guide/deployment.md");
    let (_, take) = guide.split_once("SELECT h.token, t.*").unwrap();
    let take = format!(
        "SET ROLE clerk; SELECT h.token, t.*{}",
        take.split_once(';').unwrap().0
    );
    let [_, held, pinned, number, ..] = &server.rows(&take)[0][..] else {
        panic!("one row");
    };
    assert_eq!([held, pinned], ["t", "f"]);
    assert!(number.parse::<u64>().unwrap() > before);
    let next = soon(waiter).await.unwrap().unwrap();
    assert!(next.fencing_token().await.unwrap() > number.parse().unwrap());
    soon(guard.lost()).await;
    drop(guard);
    next.release().await.unwrap();
}

#[tokio::test]
async fn sessions_have_an_application_name() {
    let server = Postgres::start();
    let sessions = |name: &str| {
        let query = "SELECT count(*) FROM pg_stat_activity WHERE application_name =";
        server.query::<usize>(&format!("{query} '{name}'"))
    };
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(format!("{}?application_name=shop", server.url()))).await;
    assert!(sessions("lock-runtime") > 0 && sessions("shop") > 0);
    locks.shutdown().await;
    other.shutdown().await;
}
