//! Fencing tokens grow with holds.

use crate::Site;
use crate::time::{NOISE, within};

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
