//! Renewals and repairs.

use crate::engine::redis::quorum::tests::scripted::Scripted;
use crate::engine::redis::quorum::tests::{Bench, claim};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn only_members_that_hold_the_lock_count_for_a_renewal() {
    let bench = Bench::of(5);
    let mine = bench.hold().await;
    assert!(bench.renew(&mine).await.unwrap());
    bench.members[0].is_down(true);
    bench.members[1].pause();
    assert!(bench.renew(&mine).await.unwrap());
    // Two members hold the lock, two are unavailable, and one has lost it.
    bench.members[2].forget();
    let error = bench.renew(&mine).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(
        error
            .to_string()
            .contains("`member-2`: not ours; `member-3`: renewed"),
        "{error}"
    );
    assert_eq!(bench.where_is(&mine).len(), 4, "nothing was repaired");
    // Three members have lost it.
    bench.members[3].forget();
    bench.members[0].is_down(false);
    bench.members[0].forget();
    assert!(!bench.renew(&mine).await.unwrap());
    bench.members[1].resume();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_lost_the_lock_is_repaired_while_a_majority_holds_it() {
    let bench = Bench::of(5);
    let mine = bench.hold().await;
    for member in 0..5 {
        bench.members[member].forget();
        assert!(bench.renew(&mine).await.unwrap());
        bench
            .wait_until("it is repaired", || bench.members[member].has(&mine))
            .await;
    }
    assert!(bench.release(&mine).await.unwrap());
    bench.nothing_is_left(&mine).await;
}

/// A member at which another claim holds the lock keeps that claim.
#[tokio::test(start_paused = true)]
async fn a_member_with_another_holder_is_not_repaired() {
    let bench = Bench::of(3);
    let (mine, theirs) = (claim(), claim());
    assert!(bench.acquire(&mine).await.unwrap());
    bench
        .wait_until("all members hold it", || bench.where_is(&mine).len() == 3)
        .await;
    bench.members[1].give(&theirs);
    assert!(bench.renew(&mine).await.unwrap());
    let asked = || bench.members[1].state().votes == 2;
    bench.wait_until("it is asked", asked).await;
    assert!(bench.members[1].has(&theirs));
}

/// The lock is released while a member is being repaired.
#[tokio::test(start_paused = true)]
async fn a_repair_never_follows_the_release() {
    let bench = Bench::of(3);
    let mine = bench.hold().await;
    bench.members[2].forget();
    bench.members[2].pause();
    assert!(bench.renew(&mine).await.unwrap());
    // The renewal has its reply; the repair is sent and has none.
    let pending = |count| move |member: &Scripted| member.state().pending.len() == count;
    bench
        .wait_until("the renewal is sent", || pending(1)(&bench.members[2]))
        .await;
    let renewal = bench.members[2].state().pending.remove(0);
    renewal(&mut bench.members[2].state());
    bench
        .wait_until("the repair is sent", || pending(1)(&bench.members[2]))
        .await;
    assert!(bench.release(&mine).await.unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.members[2].resume();
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.nothing_is_left(&mine).await;
    assert_eq!(bench.members[2].state().votes, 2);
}

/// A member reports the loss when the lock has been released, though not at every member yet.
#[tokio::test(start_paused = true)]
async fn a_released_lock_is_not_repaired() {
    let bench = Bench::of(5);
    let mine = bench.hold().await;
    bench.members[4].forget();
    bench.members[4].pause();
    assert!(bench.renew(&mine).await.unwrap());
    bench.members[3].pause();
    assert!(bench.release(&mine).await.unwrap());
    bench.members[4].resume();
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(bench.members[4].state().votes, 1);
    bench.members[3].resume();
    bench.nothing_is_left(&mine).await;
}
