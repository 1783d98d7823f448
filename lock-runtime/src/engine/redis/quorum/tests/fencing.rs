//! Fencing tokens, in two phases.

use crate::engine::redis::quorum::tests::scripted::Scripted;
use crate::engine::redis::quorum::tests::{Bench, begin, claim};
use std::pin::pin;

#[tokio::test(start_paused = true)]
async fn fencing_tokens_increase_across_majorities() {
    let bench = Bench::of(5);
    let mut last = 0;
    for away in [[0, 1], [2, 3], [1, 4], [0, 3], [2, 4], [0, 1]] {
        for member in away {
            bench.members[member].is_down(true);
        }
        let mine = claim();
        assert!(bench.acquire(&mine).await.unwrap());
        let token = bench.fencing_token(&mine).await.unwrap().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
        assert!(bench.release(&mine).await.unwrap());
        for member in away {
            bench.members[member].is_down(false);
        }
    }
}

/// A number counts once it is stored at a majority that has held the lock throughout.
#[tokio::test(start_paused = true)]
async fn a_fencing_token_without_a_majority_is_not_returned() {
    let bench = Bench::of(3);
    let mine = bench.hold().await;
    let mut token = pin!(bench.fencing_token(&mine));
    bench.members[0].pause();
    bench.members[1].pause();
    assert!(begin(token.as_mut()).is_pending());
    let asked = |member: &Scripted| !member.state().pending.is_empty();
    bench
        .wait_until("both are asked", || {
            asked(&bench.members[0]) && asked(&bench.members[1])
        })
        .await;
    // Both members return a number, and lose the lock before they can store one.
    for member in &bench.members[..2] {
        let mut state = member.state();
        let ask = state.pending.remove(0);
        ask(&mut state);
        state.locks.clear();
    }
    bench
        .wait_until("both are asked to store", || {
            asked(&bench.members[0]) && asked(&bench.members[1])
        })
        .await;
    bench.members[0].resume();
    bench.members[1].resume();
    assert_eq!(token.await.unwrap(), None);
}
