//! Elections that are won, lost or undecided.

use crate::engine::error::{EngineError, EngineErrorKind};
use crate::engine::redis::quorum::ballot::Ballot;
use crate::engine::redis::quorum::tests::{Bench, PATIENCE, TTL, another, claim};
use crate::engine::redis::quorum::votes::{CountPhase, Verdict, Votes};
use crate::engine::redis::vote::Vote;
use crate::engine::token::Token;
use crate::process::{BITS, ProcessId};
use crate::util::time::{deadline_in, now};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_losing_claim_withdraws_its_votes() {
    let bench = Bench::of(5);
    let (holder, loser) = (claim(), claim());
    for member in &bench.members[..3] {
        member.give(&holder);
    }
    assert!(!bench.acquire(&loser).await.unwrap());
    bench.nothing_is_left(&loser).await;
    assert_eq!(bench.where_is(&holder), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_the_error_lists_each_members_reply() {
    let bench = Bench::of(5);
    bench.members[0].give(&claim());
    bench.members[1].pause();
    bench.members[2].is_down(true);
    bench.members[3].is_down(true);
    let mine = claim();
    let error = bench.acquire(&mine).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no 3 of 5 members agreed: `member-0`: held by another; `member-1`: no reply (scripted); \
         `member-2`: not reached (scripted); `member-3`: not reached (scripted); `member-4`: granted"
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

/// Each claim has two of five votes, and one member is unavailable. The claim that leads by its token
/// requests votes again, and the other withdraws: neither waits for a ttl, and neither withdraws needlessly.
#[tokio::test(start_paused = true)]
async fn one_of_two_claims_that_split_the_votes_wins() {
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
            bench.quorum.elect(&mine, deadline_in(TTL)),
            other.elect(&theirs, deadline_in(TTL))
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

/// The votes are split between a new claim and claims of dead processes.
#[tokio::test(start_paused = true)]
async fn a_leading_claim_gives_up_if_dead_claims_keep_their_votes() {
    let bench = Bench::of(5);
    for member in &bench.members[..2] {
        member.give(&claim());
    }
    bench.members[4].is_down(true);
    bench.members[3].give(&claim());
    let mine = claim();
    let error = bench
        .quorum
        .elect(&mine, deadline_in(TTL))
        .await
        .unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::NotReady);
    bench.nothing_is_left(&mine).await;
}

/// A member receives the release of the previous holder after the request for the next vote.
#[tokio::test(start_paused = true)]
async fn a_member_that_has_not_released_yet_is_asked_again() {
    let bench = Bench::of(3);
    let (before, mine) = (claim(), claim());
    bench.members[2].give(&before);
    bench.members[2].state().releases_after_refusal = true;
    assert!(bench.acquire(&mine).await.unwrap());
    bench
        .wait_until("all members hold it", || bench.where_is(&mine).len() == 3)
        .await;
    assert!(bench.release(&mine).await.unwrap());
    bench.nothing_is_left(&mine).await;
}

/// A process that is stopped during a round finds that the round took long.
#[tokio::test(start_paused = true)]
async fn a_stop_of_the_process_does_not_prolong_pauses() {
    let bench = Bench::of(3);
    let engine = &bench.quorum;
    let ballot = Ballot::open(&engine.members, &engine.ballots, claim(), None);
    let start = now() - Duration::from_secs(1);
    assert_eq!(ballot.round_time(start), PATIENCE);
    ballot.withdraw(false);
}

/// The greatest token leads, so its first bits must be no process's own.
#[test]
fn two_processes_lead_split_votes_equally_often() {
    const DRAWS: usize = 100_000;

    // With two of five votes each, as either of them counts.
    let leads = |ours: Token, other: Token| {
        let mut votes = Votes::new(5, ours);
        for member in 0..2 {
            votes.record(member, Vote::Granted);
            let holder = other.encode(&mut [0; 37]).as_bytes().into();
            votes.record(member + 2, Vote::Held { holder, ttl: TTL });
        }
        match votes.verdict(CountPhase::Closed) {
            Verdict::Split { we_lead } => we_lead,
            verdict => panic!("{verdict:?}"),
        }
    };
    let last = ProcessId(u32::MAX >> (32 - BITS));
    for (process, other) in [
        (ProcessId(0), last),
        (ProcessId::random(), ProcessId::random()),
    ] {
        let mut led = 0;
        for _ in 0..DRAWS {
            let (token, others) = (Token::draw(process), Token::draw(other));
            assert_ne!(leads(token, others), leads(others, token), "one leads");
            led += usize::from(leads(token, others));
        }
        let share = led as f64 / DRAWS as f64;
        assert!(
            (0.49..=0.51).contains(&share),
            "{process} led {share} of the votes"
        );
    }
}
