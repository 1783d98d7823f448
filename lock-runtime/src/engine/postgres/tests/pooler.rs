use super::{Process, soon, text};
use crate::config::Config;
use crate::limit::Limit;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::Postgres;

/// Each request makes its settings those of its transaction.
#[tokio::test]
async fn operations_pass_a_pooler() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let pooled = Process::connect(Config::new(pooler.url())).await;
    let mut direct = Process::of(&server).await;
    direct.listen();
    let held = direct.acquire("lock:row", Limit::EXCLUSIVE).await;
    pooled
        .report(pooled.id, "report".into(), soon())
        .await
        .unwrap();
    let found = pooled.reports(None, soon()).await.unwrap();
    assert_eq!(found[0].process, pooled.id);
    let names = pooled.names("lock:", 9, soon()).await.unwrap();
    assert_eq!(names.len(), 1);
    let waits = direct.wait("lock:row").await;
    let taken = pooled.take("lock:row", &text(&held), 0, soon()).await;
    assert!(taken.unwrap().held);
    assert_eq!(direct.next_grant().await.token, waits.token);
    pooled.ask("report", soon()).await.unwrap();
    assert_eq!(&*direct.next_ask().await, "report");
    assert!(direct.release(&waits, soon()).await.unwrap());
}
