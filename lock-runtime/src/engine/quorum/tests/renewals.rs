//! Renewals, and what heals.

use crate::engine::quorum::tests::scripted::Scripted;
use crate::engine::quorum::tests::{Bench, claim};
use std::time::Duration;

#[tokio::test]
async fn a_lease_is_renewed_by_those_who_really_have_it() {
    let bench = Bench::of(5);
    let mine = bench.hold().await;
    assert!(bench.renew(&mine).await.unwrap());
    bench.members[0].is_down(true);
    bench.members[1].pause();
    assert!(bench.renew(&mine).await.unwrap());
    // Two have it, two are away, and one has lost it.
    bench.members[2].forget();
    let error = bench.renew(&mine).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(
        error
            .to_string()
            .contains("`member-2`: not ours; `member-3`: renewed"),
        "{error}"
    );
    assert_eq!(bench.where_is(&mine).len(), 4, "nothing was healed");
    // Three have lost it.
    bench.members[3].forget();
    bench.members[0].is_down(false);
    bench.members[0].forget();
    assert!(!bench.renew(&mine).await.unwrap());
    bench.members[1].resume();
}

#[tokio::test]
async fn who_has_lost_a_lock_gets_it_again_while_a_majority_has_it() {
    let bench = Bench::of(5);
    let mine = bench.hold().await;
    for member in 0..5 {
        bench.members[member].forget();
        assert!(bench.renew(&mine).await.unwrap());
        bench
            .deadline("it is healed", || bench.members[member].has(&mine))
            .await;
    }
    assert!(bench.release(&mine).await.unwrap());
    bench.nothing_is_left(&mine).await;
}

/// Whom somebody else has taken meanwhile is left to him.
#[tokio::test]
async fn nobody_is_healed_who_has_given_it_to_another() {
    let bench = Bench::of(3);
    let (mine, theirs) = (claim(), claim());
    assert!(bench.acquire(&mine).await.unwrap());
    bench
        .deadline("all have it", || bench.where_is(&mine).len() == 3)
        .await;
    bench.members[1].give(&theirs);
    assert!(bench.renew(&mine).await.unwrap());
    let asked = || bench.members[1].state().votes == 2;
    bench.deadline("it is asked", asked).await;
    assert!(bench.members[1].has(&theirs));
}

/// A member is being healed while the lock is released.
#[tokio::test]
async fn what_heals_never_comes_after_the_release() {
    let bench = Bench::of(3);
    let mine = bench.hold().await;
    bench.members[2].forget();
    bench.members[2].pause();
    assert!(bench.renew(&mine).await.unwrap());
    // The renewal is answered, what heals is sent and is not.
    let pending = |count| move |member: &Scripted| member.state().pending.len() == count;
    bench
        .deadline("the renewal is sent", || pending(1)(&bench.members[2]))
        .await;
    let renewal = bench.members[2].state().pending.remove(0);
    renewal(&mut bench.members[2].state());
    bench
        .deadline("it is sent", || pending(1)(&bench.members[2]))
        .await;
    assert!(bench.release(&mine).await.unwrap());
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.members[2].resume();
    tokio::time::sleep(Duration::from_millis(20)).await;
    bench.nothing_is_left(&mine).await;
    assert_eq!(bench.members[2].state().votes, 2);
}

/// A member says that it has lost the lock when that is released already, and not yet everywhere.
#[tokio::test]
async fn nobody_is_healed_of_a_lock_that_is_released() {
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
