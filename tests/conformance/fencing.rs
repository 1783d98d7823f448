//! Fencing tokens increase from hold to hold.

use tokio::task::JoinSet;

use super::fixture::Fixture;
use lock_test_support::time::soon;

pub async fn fencing_tokens_increase_across_processes(fixture: Fixture) {
    let row = fixture.key("row");
    let managers = fixture.both();
    let mut last = 0;
    for n in 0..60 {
        let guard = managers[n % 2].lock(&*row).acquire().await.unwrap();
        let token = soon(guard.fencing_token()).await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.unwrap();
    }
}

pub async fn hold_has_one_fencing_token(fixture: Fixture) {
    let guard = fixture
        .locks()
        .lock(fixture.key("row"))
        .acquire()
        .await
        .unwrap();
    let (a, b) = tokio::join!(guard.fencing_token(), guard.fencing_token());
    let first = a.unwrap();
    assert_eq!(b.unwrap(), first);
    assert_eq!(guard.fencing_token().await.unwrap(), first);
    guard.release().await.unwrap();
}

/// Whether by local handoff or by a grant.
pub async fn fencing_tokens_increase_across_waiters(fixture: Fixture) {
    let row = fixture.key("row");
    let managers = fixture.both();
    let (tell, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let holder = managers[0].lock(&*row).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for n in 0..16 {
        let lock = managers[n % 2].lock(&*row);
        let tell = tell.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tell.send(guard.fencing_token().await.unwrap()).unwrap();
            guard.release().await.unwrap();
        });
    }
    fixture.until_waiting(&row, 1).await;
    let mut last = holder.fencing_token().await.unwrap();
    holder.release().await.unwrap();
    soon(waiters.join_all()).await;
    drop(tell);
    while let Some(token) = reported.recv().await {
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}
