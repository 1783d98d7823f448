//! Releases leave nothing behind, however late they arrive.

use crate::engine::redis::quorum::tests::{Bench, DEADLINE, PATIENCE, begin, claim};
use crate::util::time::{deadline_in, now};
use std::pin::pin;

#[tokio::test(start_paused = true)]
async fn a_paused_member_delays_no_release_and_is_cleaned_up_on_resume() {
    // A call that waited for the paused member would take longer than its deadline.
    let bench = Bench::with_timeout(5, 2 * DEADLINE);
    let claim = claim();
    bench.members[0].pause();
    bench.members[4].is_down(true);
    let start = now();
    assert!(bench.acquire(&claim).await.unwrap());
    assert!(bench.release(&claim).await.unwrap());
    assert_eq!(now(), start, "it waits for no timer");
    bench.members[0].resume();
    bench.nothing_is_left(&claim).await;
}

/// The vote is granted when no caller waits for it any more.
#[tokio::test(start_paused = true)]
async fn a_vote_granted_after_the_release_is_withdrawn() {
    let bench = Bench::of(3);
    let claim = claim();
    bench.members[2].pause();
    assert!(bench.acquire(&claim).await.unwrap());
    assert!(bench.release(&claim).await.unwrap());
    // Longer than the deadline of the vote.
    tokio::time::sleep(PATIENCE * 2).await;
    bench.members[2].resume();
    bench.nothing_is_left(&claim).await;
    assert!(bench.members[2].state().votes == 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_no_lock() {
    let bench = Bench::of(3);
    for paused in 0..4 {
        let claim = claim();
        for member in &bench.members[..paused] {
            member.pause();
        }
        {
            let mut acquire = pin!(bench.quorum.elect(&claim, deadline_in(PATIENCE)));
            let _ = begin(acquire.as_mut());
        }
        // The manager cleans up, whether or not the members have carried out the request.
        let released = bench.quorum.release(&claim, deadline_in(PATIENCE)).await;
        assert!(released.is_ok() || paused > 1, "{released:?}");
        for member in &bench.members {
            member.resume();
        }
        bench.nothing_is_left(&claim).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_reports_the_reply_of_the_majority() {
    let bench = Bench::of(5);
    let mine = bench.hold().await;
    bench.members[0].forget();
    bench.members[1].forget();
    assert!(bench.release(&mine).await.unwrap());
    let mine = bench.hold().await;
    for member in &bench.members[..3] {
        member.forget();
    }
    assert!(!bench.release(&mine).await.unwrap());
    let mine = bench.hold().await;
    bench.members[0].forget();
    for member in &bench.members[1..4] {
        member.is_down(true);
    }
    let error = bench.release(&mine).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(
        error.to_string().ends_with("`member-4`: released"),
        "{error}"
    );
    // The release continues, whether or not a caller waits for it.
    for member in &bench.members[1..4] {
        member.is_down(false);
    }
    bench.nothing_is_left(&mine).await;
}
