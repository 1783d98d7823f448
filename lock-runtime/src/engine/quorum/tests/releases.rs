//! Releases: nothing is left, however late it comes.

use crate::engine::quorum::tests::{Bench, PATIENCE, begin, claim};
use crate::engine::traits::Engine;
use crate::util::time::deadline_in;
use std::pin::pin;

#[tokio::test]
async fn a_member_that_stops_is_not_waited_for_and_is_cleared_when_it_goes_on() {
    let bench = Bench::of(5);
    let claim = claim();
    bench.members[0].pause();
    bench.members[4].is_down(true);
    let start = std::time::Instant::now();
    assert!(bench.acquire(&claim).await.unwrap());
    assert!(bench.release(&claim).await.unwrap());
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    bench.members[0].resume();
    bench.nothing_is_left(&claim).await;
}

/// Its vote comes when all have forgotten about it.
#[tokio::test]
async fn a_vote_that_comes_after_the_release_is_cleared_away() {
    let bench = Bench::of(3);
    let claim = claim();
    bench.members[2].pause();
    assert!(bench.acquire(&claim).await.unwrap());
    assert!(bench.release(&claim).await.unwrap());
    // Past the time that the vote was given.
    tokio::time::sleep(PATIENCE * 2).await;
    bench.members[2].resume();
    bench.nothing_is_left(&claim).await;
    assert!(bench.members[2].state().votes == 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing() {
    let bench = Bench::of(3);
    for paused in 0..4 {
        let claim = claim();
        for member in &bench.members[..paused] {
            member.pause();
        }
        {
            let mut acquire = pin!(bench.quorum.acquire(&claim, deadline_in(PATIENCE)));
            let _ = begin(acquire.as_mut());
        }
        // The manager sees to it that nothing of it is left, before and after it is asked.
        let released = bench.release(&claim).await;
        assert!(released.is_ok() || paused > 1, "{released:?}");
        for member in &bench.members {
            member.resume();
        }
        bench.nothing_is_left(&claim).await;
    }
}

#[tokio::test]
async fn a_release_says_what_a_majority_has_found() {
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
    // It goes on, whether somebody asks or not.
    for member in &bench.members[1..4] {
        member.is_down(false);
    }
    bench.nothing_is_left(&mine).await;
}
