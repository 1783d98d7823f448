//! Elections: won, lost, and undecided.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::quorum::tests::{Bench, TTL, another, claim};
use crate::engine::traits::Engine;
use crate::util::time::deadline_in;

#[tokio::test]
async fn who_loses_gives_up_what_it_has_got() {
    let bench = Bench::of(5);
    let (holder, loser) = (claim(), claim());
    for member in &bench.members[..3] {
        member.give(&holder);
    }
    assert!(!bench.acquire(&loser).await.unwrap());
    bench.nothing_is_left(&loser).await;
    assert_eq!(bench.where_is(&holder), [0, 1, 2]);
}

#[tokio::test]
async fn without_a_majority_each_members_answer_is_told() {
    let bench = Bench::of(5);
    bench.members[0].give(&claim());
    bench.members[1].pause();
    bench.members[2].is_down(true);
    bench.members[3].is_down(true);
    let mine = claim();
    let error = bench.acquire(&mine).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no 3 of 5 members agreed: `member-0`: held by another; `member-1`: no answer (as told); \
         `member-2`: not reached (as told); `member-3`: not reached (as told); `member-4`: granted"
    );
    assert_eq!(error.kind, EngineErrorKind::NotReady);
    bench.members[1].is_down(true);
    assert_eq!(
        bench.acquire(&claim()).await.unwrap_err().kind,
        EngineErrorKind::NotConnected
    );
    bench.members[1].resume();
    bench.members[1].is_down(false);
    bench.nothing_is_left(&mine).await;
}

/// Each has got two of five, and one is away. The one that comes first by its token asks on, and the
/// other gives up: nobody waits for a ttl, and nobody gives up for nothing.
#[tokio::test]
async fn of_two_that_are_in_each_others_way_one_gets_it() {
    for _ in 0..20 {
        let bench = Bench::of(5);
        let other = another(&bench.members);
        bench.members[4].is_down(true);
        let (mine, theirs) = (claim(), claim());
        for member in &bench.members[..2] {
            member.give(&mine);
        }
        for member in &bench.members[2..4] {
            member.give(&theirs);
        }
        let (mine_won, theirs_won) = tokio::join!(
            bench.quorum.acquire(&mine, deadline_in(TTL)),
            other.acquire(&theirs, deadline_in(TTL))
        );
        let won = |acquired: &Result<bool, EngineError>| matches!(acquired, Ok(true));
        assert!(
            won(&mine_won) != won(&theirs_won),
            "{mine_won:?} {theirs_won:?}"
        );
        let (winner, loser) = match won(&mine_won) {
            true => (&mine, &theirs),
            false => (&theirs, &mine),
        };
        assert!(bench.where_is(winner).len() >= 3);
        bench.nothing_is_left(loser).await;
        let votes: usize = bench
            .members
            .iter()
            .map(|member| member.state().votes)
            .sum();
        assert!(votes <= 8 + 8, "{votes} votes");
    }
}

/// The members are divided among somebody who has died and one who comes.
#[tokio::test]
async fn who_is_first_beside_the_dead_gives_up_in_the_end() {
    let bench = Bench::of(5);
    for member in &bench.members[..2] {
        member.give(&claim());
    }
    bench.members[4].is_down(true);
    bench.members[3].give(&claim());
    let mine = claim();
    let error = bench
        .quorum
        .acquire(&mine, deadline_in(TTL))
        .await
        .unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::NotReady);
    bench.nothing_is_left(&mine).await;
}

/// A member hears of the last release after it was asked for the next lock.
#[tokio::test]
async fn who_has_not_let_go_yet_is_asked_again() {
    let bench = Bench::of(3);
    let (before, mine) = (claim(), claim());
    bench.members[2].give(&before);
    assert!(bench.acquire(&mine).await.unwrap());
    bench.members[2].forget();
    bench
        .deadline("all have it", || bench.where_is(&mine).len() == 3)
        .await;
    assert!(bench.release(&mine).await.unwrap());
    bench.nothing_is_left(&mine).await;
}
