//! Fencing tokens grow with holds.

use tokio::task::{JoinSet, yield_now};

use crate::Site;
use crate::time::{NOISE, millis, within};

#[tokio::test]
async fn they_grow_with_holds_whoever_holds() {
    let site = Site::start().await;
    let managers = [site.locks().clone(), site.another().await];
    let mut last = 0;
    for n in 0..100 {
        let guard = managers[n % 2].lock("row").acquire().await.unwrap();
        let token = within(NOISE, guard.fencing_token()).await.unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_has_one() {
    let site = Site::start().await;
    let guard = site.locks().lock("row").acquire().await.unwrap();
    let (a, b) = tokio::join!(guard.fencing_token(), guard.fencing_token());
    let first = a.unwrap();
    assert_eq!(b.unwrap(), first);
    assert_eq!(guard.fencing_token().await.unwrap(), first);
    guard.release().await.unwrap();
}

/// However the lock passes from one to the next.
#[tokio::test]
async fn they_grow_along_a_line_of_waiters() {
    let site = Site::start().await;
    let managers = [site.locks().clone(), site.another().await];
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let holder = managers[0].lock("row").acquire().await.unwrap();
    let mut waiters = JoinSet::new();
    for n in 0..40 {
        let lock = managers[n % 2].lock("row").wait(millis(20_000));
        let tell = tell.clone();
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            tell.send(guard.fencing_token().await.unwrap()).unwrap();
            guard.release().await.unwrap();
        });
        yield_now().await;
    }
    let mut last = holder.fencing_token().await.unwrap();
    holder.release().await.unwrap();
    within(millis(20_000), waiters.join_all()).await;
    drop(tell);
    while let Some(token) = told.recv().await {
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}
