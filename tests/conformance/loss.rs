//! A foreign client that deletes or overwrites a lock ends the body that relied on it. Topologies without
//! foreign clients never lose a lock this way.

use std::future::pending;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, LostCause, OnLost, distributed_lock};
use tokio::sync::oneshot;

use super::fixture::Fixture;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{millis, soon};

#[distributed_lock(key = "<key>", ttl = ttl, manager = locks)]
async fn hold(
    locks: LockManager,
    key: String,
    ttl: Duration,
    inside: oneshot::Sender<()>,
) -> Result<(), LockError> {
    let _ = inside.send(());
    pending().await
}

/// Asserts that a body that never ends is canceled at the next renewal after `tampers`.
async fn is_cancelled(fixture: &Fixture, key: &str, tampers: impl Fn(&str) -> bool) {
    let (inside, entered) = oneshot::channel();
    let (locks, ttl) = (fixture.locks().clone(), fixture.renewed_lease());
    let call = tokio::spawn(hold(locks, key.to_owned(), ttl, inside));
    soon(entered).await.unwrap();
    if !tampers(key) {
        return call.abort();
    }
    let error = soon(call).await.unwrap().unwrap_err();
    // By the renewal, not by the end of the lease.
    let cause = LostCause::NotOwner;
    assert!(
        matches!(&error, LockError::Lost { cause: found, .. } if *found == cause),
        "{error:?}"
    );
    assert!(!error.is_unavailable() && error.key() == Some(key));
}

pub async fn deleted_lock_cancels_body(fixture: Fixture) {
    let row = fixture.key("row");
    is_cancelled(&fixture, &row, |key| fixture.deleted(key)).await;
    fixture.until_free(&row).await;
}

pub async fn stolen_lock_cancels_body_and_is_left_unchanged(fixture: Fixture) {
    let row = fixture.key("row");
    is_cancelled(&fixture, &row, |key| fixture.stolen(key)).await;
    tokio::time::sleep(millis(100)).await;
    if fixture.deleted(&fixture.key("nothing")) {
        assert!(
            fixture.is_held(&row).await,
            "the thief still holds the lock"
        );
    }
    fixture.deleted(&row);
    fixture.until_free(&row).await;
}

pub async fn continue_on_lost_keeps_body_running(fixture: Fixture) {
    #[distributed_lock(key = "<key>", ttl = ttl, on_lost = "continue", guard = lock, manager = locks)]
    async fn goes_on(
        locks: LockManager,
        key: String,
        ttl: Duration,
        tampers: impl FnOnce() -> bool,
    ) -> Result<&'static str, LockError> {
        assert!(lock.is_valid());
        if tampers() {
            assert!(soon(lock.lost()).await.is_lost());
            assert!(!lock.is_valid());
            assert_eq!(lock.remaining(), Duration::ZERO);
            assert!(lock.ensure_valid_for(Duration::ZERO).unwrap_err().is_lost());
            assert!(lock.fencing_token().await.unwrap_err().is_lost());
            tokio::time::sleep(millis(50)).await;
        }
        Ok("done")
    }
    let row = fixture.key("row");
    let tampers = || fixture.stolen(&row);
    let ttl = fixture.renewed_lease();
    let call = goes_on(fixture.locks().clone(), row.clone(), ttl, tampers);
    assert_eq!(call.await.unwrap(), "done");
    fixture.deleted(&row);

    let run = fixture.locks().lock(&*row).ttl(fixture.short_lease());
    let run = run.renew(false).on_lost(OnLost::Continue);
    let valid = run.run(async |lock| {
        lock.lost().await;
        tokio::task::yield_now().await;
        lock.is_valid()
    });
    assert!(!valid.await.unwrap());
}

pub async fn release_of_lost_lock_reports_loss(fixture: Fixture) {
    let row = fixture.key("row");
    for tampers in [Fixture::deleted, Fixture::stolen] {
        let guard = fixture.locks().lock(&*row).acquire().await.unwrap();
        let lost = tampers(&fixture, &row);
        let released = guard.release().await;
        assert_eq!(released.is_err_and(|error| error.is_lost()), lost);
        fixture.deleted(&row);
    }
}

/// The body ends before the loss is noticed: its result is returned.
pub async fn result_of_finished_body_is_kept(fixture: Fixture) {
    let row = fixture.key("row");
    let run = fixture.locks().lock(&*row).run(async |_| {
        fixture.deleted(&row);
        "done"
    });
    assert_eq!(run.await.unwrap(), "done");

    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let run = locks.lock(&*row).run(async |_| {
        network.each(Proxy::cut);
        "done"
    });
    assert_eq!(soon(run).await.unwrap(), "done");
    network.each(Proxy::heal);
    soon(locks.shutdown()).await;
}

pub async fn lost_lock_gets_no_fencing_token(fixture: Fixture) {
    let row = fixture.key("row");
    for tampers in [Fixture::deleted, Fixture::stolen] {
        let guard = fixture.locks().lock(&*row).acquire().await.unwrap();
        if tampers(&fixture, &row) {
            let error = soon(guard.fencing_token()).await.unwrap_err();
            assert!(error.is_lost() && error.key() == Some(&*row), "{error}");
            assert!(
                !guard.is_valid(),
                "the server's reply invalidates the guard"
            );
        }
        drop(guard);
        fixture.deleted(&row);
        fixture.until_free(&row).await;
    }
}
