//! A foreign client that deletes or overwrites a lock ends the body that relied on it. Topologies without
//! foreign clients never lose a lock this way.

use std::future::pending;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::sync::oneshot;

use super::site::Site;
use crate::support::time::{NOISE, millis, within};

const TTL: Duration = millis(1200);
/// A renewal is sent after a third of the TTL, plus or minus a tenth.
const NEXT_RENEWAL: Duration = millis(1200 / 3 + 1200 / 30);

#[distributed_lock(key = "<key>", ttl = "1200ms", manager = locks)]
async fn hold(
    locks: LockManager,
    key: String,
    inside: oneshot::Sender<()>,
) -> Result<(), LockError> {
    let _ = inside.send(());
    pending().await
}

/// Asserts that a body that never ends is canceled at the next renewal after `tampers`.
async fn is_cancelled(site: &Site, key: &str, tampers: impl Fn(&str) -> bool) {
    let (inside, entered) = oneshot::channel();
    let call = tokio::spawn(hold(site.locks().clone(), key.to_owned(), inside));
    within(NOISE * 2, entered).await.unwrap();
    if !tampers(key) {
        return call.abort();
    }
    let error = within(NEXT_RENEWAL + NOISE, call)
        .await
        .unwrap()
        .unwrap_err();
    assert!(error.is_lost() && !error.is_unavailable(), "{error}");
    assert_eq!(error.key(), Some(key));
}

pub async fn deleted_lock_cancels_body(site: Site) {
    let row = site.key("row");
    is_cancelled(&site, &row, |key| site.deleted(key)).await;
    site.until_free(&row, TTL).await;
}

pub async fn stolen_lock_cancels_body_and_is_left_unchanged(site: Site) {
    let row = site.key("row");
    is_cancelled(&site, &row, |key| site.stolen(key)).await;
    tokio::time::sleep(millis(100)).await;
    if site.deleted(&site.key("nothing")) {
        assert!(site.is_held(&row).await, "the thief still holds the lock");
    }
    site.deleted(&row);
    site.until_free(&row, TTL).await;
}

pub async fn continue_on_lost_keeps_body_running(site: Site) {
    #[distributed_lock(key = "<key>", ttl = "1200ms", on_lost = "continue", guard = lock, manager = locks)]
    async fn goes_on(
        locks: LockManager,
        key: String,
        tampers: impl FnOnce() -> bool,
    ) -> Result<&'static str, LockError> {
        assert!(lock.is_valid());
        if tampers() {
            assert!(within(TTL + NOISE, lock.lost()).await.is_lost());
            assert!(!lock.is_valid());
            assert_eq!(lock.remaining(), Duration::ZERO);
            assert!(lock.ensure_valid_for(Duration::ZERO).unwrap_err().is_lost());
            assert!(lock.fencing_token().await.unwrap_err().is_lost());
            tokio::time::sleep(millis(50)).await;
        }
        Ok("done")
    }
    let row = site.key("row");
    let tampers = || site.stolen(&row);
    let call = goes_on(site.locks().clone(), row.clone(), tampers);
    assert_eq!(call.await.unwrap(), "done");
    site.deleted(&row);
}

pub async fn release_of_lost_lock_reports_loss(site: Site) {
    let row = site.key("row");
    for tampers in [Site::deleted, Site::stolen] {
        let guard = site.locks().lock(&*row).acquire().await.unwrap();
        let lost = tampers(&site, &row);
        let released = guard.release().await;
        assert_eq!(released.is_err_and(|error| error.is_lost()), lost);
        site.deleted(&row);
    }
}

/// The body ends before the loss is noticed: its result is returned.
pub async fn result_of_finished_body_is_kept(site: Site) {
    let row = site.key("row");
    let run = site.locks().lock(&*row).run(async |_| {
        site.deleted(&row);
        "done"
    });
    assert_eq!(run.await.unwrap(), "done");
}

pub async fn lost_lock_gets_no_fencing_token(site: Site) {
    let row = site.key("row");
    for tampers in [Site::deleted, Site::stolen] {
        let guard = site.locks().lock(&*row).acquire().await.unwrap();
        if tampers(&site, &row) {
            let error = within(NOISE * 2, guard.fencing_token()).await.unwrap_err();
            assert!(error.is_lost() && error.key() == Some(&*row), "{error}");
            assert!(
                !guard.is_valid(),
                "the server's reply invalidates the guard"
            );
        }
        drop(guard);
        site.deleted(&row);
        site.until_free(&row, NOISE).await;
    }
}
