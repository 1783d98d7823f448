//! Taking a lock from its holder, at a majority.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::operations::Taken;
use crate::engine::redis::quorum::tests::{Bench, DEADLINE, PATIENCE, claim};
use crate::engine::request::Claim;
use crate::util::time::deadline_in;
use std::time::Duration;

impl Bench {
    async fn take(&self, claim: &Claim, within: Duration) -> Result<Taken, EngineError> {
        let (mut token, deadline) = ([0; 37], deadline_in(within));
        let token = claim.token.encode(&mut token);
        self.quorum.take("door", token, 0, deadline).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_taken_lock_is_free_at_all_members() {
    let bench = Bench::of(5);
    let (mine, next) = (bench.hold().await, claim());
    let first = bench.fencing_token(&mine).await.unwrap().unwrap();
    let taken = bench.take(&mine, DEADLINE).await.unwrap();
    assert!(taken.held && taken.fencing_token > first, "{taken:?}");
    bench.nothing_is_left(&mine).await;
    assert!(!bench.renew(&mine).await.unwrap());
    assert_eq!(bench.fencing_token(&mine).await.unwrap(), None);

    assert!(bench.acquire(&next).await.unwrap());
    let again = bench.take(&mine, DEADLINE).await.unwrap();
    assert!(!again.held && again.fencing_token > taken.fencing_token);
    assert!(bench.renew(&next).await.unwrap());
    let number = bench.fencing_token(&next).await.unwrap().unwrap();
    assert!(number > again.fencing_token, "{number} after {again:?}");
}

/// Each member has seen other numbers: a majority must know the greatest before it counts.
#[tokio::test(start_paused = true)]
async fn the_number_of_a_take_is_known_to_every_later_majority() {
    let bench = Bench::of(5);
    for (n, member) in (0_u64..).zip(&bench.members) {
        member.state().counter = n * n * 100;
    }
    for away in [[0, 1], [2, 3], [4, 0], [1, 3], [2, 4]] {
        let mine = bench.hold().await;
        let number = bench.fencing_token(&mine).await.unwrap().unwrap();
        for member in away {
            bench.members[member].is_down(true);
        }
        let taken = bench.take(&mine, DEADLINE).await.unwrap();
        assert!(taken.held && taken.fencing_token > number, "{taken:?}");
        let next = claim();
        // The others go, and those come back.
        for member in away {
            bench.members[member].is_down(false);
            bench.members[member].forget();
        }
        let gone = (0..5).find(|member| !away.contains(member)).unwrap();
        bench.members[gone].is_down(true);
        assert!(bench.acquire(&next).await.unwrap());
        let later = bench.fencing_token(&next).await.unwrap().unwrap();
        assert!(later > taken.fencing_token, "{later} after {taken:?}");
        assert!(bench.release(&next).await.unwrap());
        bench.members[gone].is_down(false);
        bench.members[gone].forget();
    }
}

/// A claim that has the lock at a minority keeps others from a majority, or is beside a holder with a lower
/// number.
#[tokio::test(start_paused = true)]
async fn a_minority_is_taken_too_and_held_nothing() {
    let bench = Bench::of(3);
    let (mine, stray) = (bench.hold().await, claim());
    bench.members[2].give(&stray);
    let taken = bench.take(&stray, DEADLINE).await.unwrap();
    assert!(!taken.held, "{taken:?}");
    bench.nothing_is_left(&stray).await;
    assert!(bench.renew(&mine).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn members_that_do_not_reply_may_have_what_is_taken() {
    let bench = Bench::of(3);
    let mine = bench.hold().await;
    bench.members[0].forget();
    bench.members[1].is_down(true);
    let taken = bench.take(&mine, PATIENCE).await.unwrap();
    assert!(taken.held, "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_take_needs_a_majority() {
    let bench = Bench::of(3);
    let mine = bench.hold().await;
    bench.members[0].is_down(true);
    bench.members[1].is_down(true);
    let error = bench.take(&mine, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::NotConnected, "{error}");
    bench.members[0].is_down(false);
    bench.members[1].is_down(false);
    // The holder still has its majority.
    assert!(bench.renew(&mine).await.unwrap());
    bench.members[0].pause();
    bench.members[1].pause();
    let error = bench.take(&mine, PATIENCE).await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::NotReady, "{error}");
}
