//! A server whose disk is full refuses all writes.

use super::fixture::Fixture;
use lock_test_support::manager::{until_refused, use_once};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{millis, soon};

/// Makes the server refuse each write of a lease, as it does when its disk is full.
fn fill(server: &Postgres) {
    server.execute(
        "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
         END $$;
         CREATE TRIGGER no_space BEFORE INSERT OR UPDATE ON distributed_lock.held
             FOR EACH STATEMENT EXECUTE FUNCTION no_space()",
    );
}

fn clear(server: &Postgres) {
    server.execute("DROP FUNCTION no_space CASCADE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_keeps_its_lease_while_the_disk_is_full() {
    let fixture = Fixture::start().await;
    let locks = fixture.locks();
    let guard = locks.lock("row").acquire().await.unwrap();
    fill(&fixture);
    until_refused(locks.lock("other"), "No space left on device").await;
    assert!(guard.is_valid());
    clear(&fixture);
    soon(use_once(locks, "other")).await;
    guard.release().await.unwrap();
}

/// A release frees space: it is carried out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_is_released_while_the_disk_is_full() {
    let fixture = Fixture::start().await;
    let guard = fixture.locks().lock("row").acquire().await.unwrap();
    fill(&fixture);
    guard.release().await.unwrap();
    assert!(!fixture.is_held("row"));
    clear(&fixture);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_that_cannot_be_renewed_ends() {
    let fixture = Fixture::start().await;
    let lock = fixture.locks().lock("row").ttl(millis(1000));
    let guard = lock.acquire().await.unwrap();
    fill(&fixture);
    soon(guard.lost()).await;
    assert!(!guard.is_valid());
    clear(&fixture);
}
