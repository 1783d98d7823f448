//! Fencing tokens grow with holds.

use tokio::task::JoinSet;

use super::site::Site;
use crate::support::time::{NOISE, millis, within};

pub async fn they_grow_with_holds_whoever_holds(site: Site) {
    let row = site.key("row");
    let managers = site.both();
    let mut last = 0;
    for n in 0..60 {
        let guard = managers[n % 2].lock(&*row).acquire().await.unwrap();
        let token = within(NOISE * 2, guard.fencing_token()).await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.unwrap();
    }
}

pub async fn a_hold_has_one(site: Site) {
    let guard = site.locks().lock(site.key("row")).acquire().await.unwrap();
    let (a, b) = tokio::join!(guard.fencing_token(), guard.fencing_token());
    let first = a.unwrap();
    assert_eq!(b.unwrap(), first);
    assert_eq!(guard.fencing_token().await.unwrap(), first);
    guard.release().await.unwrap();
}

/// However the lock passes from one to the next.
pub async fn they_grow_along_a_line_of_waiters(site: Site) {
    let row = site.key("row");
    let managers = site.both();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let holder = managers[0].lock(&*row).acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for n in 0..40 {
        let lock = managers[n % 2].lock(&*row).wait(millis(30_000));
        let tell = tell.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tell.send(guard.fencing_token().await.unwrap()).unwrap();
            guard.release().await.unwrap();
        });
    }
    tokio::time::sleep(millis(50)).await;
    let mut last = holder.fencing_token().await.unwrap();
    holder.release().await.unwrap();
    within(millis(30_000), waiters.join_all()).await;
    drop(tell);
    while let Some(token) = told.recv().await {
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}
