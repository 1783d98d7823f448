use super::{Process, soon};
use crate::config::Config;
use crate::engine::error::{EngineError, EngineErrorKind};
use crate::limit::Limit;
use lock_test_support::postgres::Postgres;

const VERSION_2: &str = include_str!("../../../../../tests/postgres/version_2.sql");

async fn refused(process: &Process) -> Vec<EngineError> {
    let taken = process.take("lock:row", "x", 0, soon()).await;
    let told = process.report(process.id, "report".into(), soon()).await;
    let found = process.reports(None, soon()).await;
    let errors = [taken.err(), told.err(), found.err()];
    errors.into_iter().flatten().collect()
}

/// And work at once when the owner has upgraded the schema.
#[tokio::test]
async fn operations_that_the_schema_lacks_are_refused_while_locks_go_on() {
    let server = Postgres::start();
    server.execute(VERSION_2);
    let config = Config::new(server.url()).create_schema(false);
    let process = Process::connect(config).await;
    let backends = "SELECT pid FROM pg_stat_activity WHERE client_addr IS NOT NULL ORDER BY pid";
    let before = server.rows(backends);
    let errors = refused(&process).await;
    assert_eq!(errors.len(), 3);
    for (error, missing) in errors.iter().zip(["take_1", "report_1", "process"]) {
        assert_eq!(error.kind, EngineErrorKind::Rejected);
        let words = error.to_string();
        assert!(words.contains(missing), "{words}");
        assert!(words.contains("lock_runtime::postgres::schema"), "{words}");
    }
    assert_eq!(server.rows(backends), before, "the connection is kept");
    let held = process.acquire("lock:row", Limit::EXCLUSIVE).await;
    assert_eq!(process.holders("lock:row").await.len(), 1);
    let names = process.names("lock:", 9, soon()).await.unwrap();
    assert_eq!(names.len(), 1);
    assert!(process.release(&held, soon()).await.unwrap());
    process.ask("report", soon()).await.unwrap();
    let _owner = Process::of(&server).await;
    assert!(refused(&process).await.is_empty(), "it is upgraded");
}
