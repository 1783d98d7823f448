//! What a user must be allowed, and a table that is not there or not as it should be.

use lock_runtime::{Config, LockError, LockManager};

use lock_test_support::manager::{connected, refusal, use_once};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{patient, soon};

fn with_clerk(rights: &str) -> MariaDb {
    let server = MariaDb::start();
    server.query(&format!("CREATE USER clerk; GRANT {rights} TO clerk"));
    server
}

#[tokio::test]
async fn user_who_may_not_make_the_table_uses_one_that_is_there() {
    let server = with_clerk("SELECT, INSERT, UPDATE, DELETE ON shop.*");
    let url = server.url_for("clerk");
    let (error, text) = refusal(url.as_str(), "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("CREATE"), "{text}");
    server.query(lock_runtime::mysql::TABLE);
    let locks = connected(patient(url).create_schema(false)).await;
    use_once(&locks, "row").await;
    assert_eq!(locks.list("").await.unwrap().len(), 0);
    locks.shutdown().await;
}

#[tokio::test]
async fn table_is_not_made_against_the_configuration() {
    let server = MariaDb::start();
    let config = Config::new(server.url()).create_schema(false);
    let (error, text) = refusal(config, "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("allow `create_schema`"), "{text}");
    assert_eq!(server.query("SHOW TABLES"), "");
}

#[tokio::test]
async fn right_that_locks_need_is_named() {
    let server = with_clerk("SELECT, INSERT, DELETE ON shop.*");
    server.query(lock_runtime::mysql::TABLE);
    let (error, text) = refusal(server.url_for("clerk"), "no secret").await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    assert!(text.contains("UPDATE command denied"), "{text}");
}

#[tokio::test]
async fn record_of_another_program_is_named() {
    let server = MariaDb::start();
    let locks = connected(patient(server.url())).await;
    for record in [
        "",
        "nonsense",
        "0123456789abcdef\u{1}\u{1}short",
        "0123456789abcdef\u{7}later",
    ] {
        server.query(&format!(
            "REPLACE INTO distributed_locks VALUES ('lock:row', '{record}')"
        ));
        let error = soon(locks.lock("row").try_acquire()).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            error.key() == Some("row") && source.contains("the record"),
            "{error}: {source}"
        );
        // Other locks are not concerned.
        use_once(&locks, "other").await;
    }
    server.query("DELETE FROM distributed_locks WHERE name = 'lock:row'");
    use_once(&locks, "row").await;
    locks.shutdown().await;
}

/// `binlog_format = STATEMENT` allows no isolation that locks need.
#[tokio::test]
async fn format_of_the_log_that_refuses_writes_is_named() {
    let server = MariaDb::with(&["--log-bin=log", "--binlog-format=STATEMENT"]);
    let error = LockManager::connect(server.url()).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("set `binlog_format` to ROW"), "{text}");
}
