use super::{Process, soon};
use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::limit::Limit;
use crate::process::ProcessId;
use crate::util::clock::Clock;
use crate::util::io_thread::IoThread;
use crate::warning::WarningKind;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::millis;
use std::sync::Arc;

/// What the guide gives to a service, except for the rights that this library has not always needed.
const LOCKS_ALONE: &str = "
    CREATE ROLE clerk LOGIN;
    GRANT USAGE ON SCHEMA distributed_lock TO clerk;
    GRANT SELECT, INSERT, UPDATE, DELETE ON distributed_lock.held, distributed_lock.waiting TO clerk;
    GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distributed_lock TO clerk";

#[tokio::test]
async fn role_without_the_rights_of_operators_has_locks() {
    let server = Postgres::start();
    let owner = Process::of(&server).await;
    server.execute(LOCKS_ALONE);
    let mut clerk = Process::connect(Config::new(server.url_for("clerk"))).await;
    let held = clerk.acquire("lock:row", Limit::EXCLUSIVE).await;
    let told = clerk.report(clerk.id, "report".into(), soon()).await;
    let found = clerk.reports(None, soon()).await;
    let taken = clerk.take("lock:row", "x", 0, soon()).await;
    for (error, table) in [
        (told.unwrap_err(), "process"),
        (found.unwrap_err(), "process"),
        (taken.unwrap_err(), "taken"),
    ] {
        assert_eq!(error.kind, EngineErrorKind::Rejected);
        let words = format!("permission denied for table {table}");
        assert!(error.to_string().contains(&words), "{error}");
    }
    let waits = clerk.wait("lock:row").await;
    assert!(clerk.release(&held, soon()).await.unwrap());
    assert_eq!(clerk.next_grant().await.token, waits.token);
    assert!(clerk.release(&waits, soon()).await.unwrap());

    let inspection = clerk.inspect(millis(3000), 0).await;
    let kinds: Vec<_> = inspection.warnings.iter().map(|it| it.kind()).collect();
    assert_eq!(kinds, [WarningKind::Permission]);
    let finding = inspection.warnings[0].finding();
    for missing in ["INSERT ON TABLE", "process", "taken"] {
        assert!(finding.contains(missing), "{finding}");
    }
    assert!(owner.inspect(millis(3000), 0).await.warnings.is_empty());
}

/// All roles have it, unless it is revoked.
#[tokio::test]
async fn right_that_locks_need_since_version_3_is_named() {
    let server = Postgres::start();
    let _owner = Process::of(&server).await;
    server.execute(LOCKS_ALONE);
    server.execute("REVOKE SELECT ON distributed_lock.taken FROM PUBLIC");
    let config = Config::new(server.url_for("clerk"));
    let handler = Arc::new(drop);
    let open = config.open(
        IoThread::start().unwrap(),
        Clock::System,
        ProcessId::random(),
        handler,
    );
    let error = open.await.err().unwrap();
    let words = format!("{error:?}");
    assert!(
        words.contains("that locks need; grant it SELECT ON TABLE"),
        "{words}"
    );
    assert!(words.contains("taken"), "{words}");
}
