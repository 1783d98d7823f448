//! A server whose disk is full refuses all writes.

use lock_runtime::LockManager;

use super::fixture::Fixture;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{NOISE, millis, within};
use tokio::time::Instant;

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

/// Says why no lock is acquired, in the time that the call has.
async fn refused(locks: &LockManager) {
    let watch = Instant::now();
    let refused = locks.lock("other").wait(millis(300)).acquire().await;
    let error = refused.unwrap_err();
    assert!(watch.elapsed() < millis(300) + NOISE, "{error}");
    assert!(error.is_unavailable(), "{error:?}");
    let text = format!("{error:?}");
    assert!(text.contains("No space left on device"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_keeps_its_lease_while_the_disk_is_full() {
    let fixture = Fixture::start().await;
    let locks = fixture.locks();
    let guard = locks
        .lock("row")
        .ttl(millis(20_000))
        .acquire()
        .await
        .unwrap();
    fill(&fixture);
    refused(locks).await;
    assert!(guard.is_valid());
    clear(&fixture);
    let other = locks.lock("other").wait(millis(5000)).acquire();
    let other = within(millis(5000) + NOISE, other).await.unwrap();
    other.release().await.unwrap();
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
async fn lease_that_cannot_be_renewed_ends_in_time() {
    let fixture = Fixture::start().await;
    let lock = fixture.locks().lock("row").ttl(millis(1000));
    let guard = lock.acquire().await.unwrap();
    fill(&fixture);
    within(millis(1000) + NOISE, guard.lost()).await;
    assert!(!guard.is_valid());
    clear(&fixture);
}
