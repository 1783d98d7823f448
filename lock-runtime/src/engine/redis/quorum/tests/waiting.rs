//! Waiting in the queues of all members.

use crate::engine::event::EngineEvent;
use crate::engine::redis::quorum::release_hints::ReleaseHints;
use crate::engine::redis::quorum::tests::{Bench, PATIENCE, TTL, claim};
use crate::engine::request::{Claim, EnqueueReply};
use crate::engine::token::Token;
use crate::util::time::deadline_in;
use std::sync::{Arc, Mutex};

#[tokio::test(start_paused = true)]
async fn a_waiter_acquires_with_a_new_token_and_leaves_the_queues() {
    let bench = Bench::of(3);
    let (holder, place) = (claim(), claim());
    assert!(bench.acquire(&holder).await.unwrap());
    let wait = || bench.quorum.enqueue(&place, None, deadline_in(PATIENCE));
    let EnqueueReply::Queued(waiting) = wait().await.unwrap() else {
        panic!("it is held");
    };
    assert!(waiting.holder_ttl <= TTL && !waiting.has_others && waiting.position == 0);
    let votes = || -> usize { bench.members.iter().map(|it| it.state().votes).sum() };
    assert_eq!(votes(), 3, "a waiter only observes");
    assert!(bench.release(&holder).await.unwrap());
    bench
        .wait_until("all are free", || bench.where_is(&holder).is_empty())
        .await;
    let EnqueueReply::GrantedAs(token, ttl) = wait().await.unwrap() else {
        panic!("it is free");
    };
    assert!(token != place.token && ttl == TTL);
    let elected = Claim {
        token,
        ..place.clone()
    };
    let is_left = || bench.members.iter().all(|it| it.state().queue.is_empty());
    bench.wait_until("all queues are left", is_left).await;
    assert!(bench.release(&elected).await.unwrap());
}

/// The claim enters a member's queue late, and leaves it nevertheless.
#[tokio::test(start_paused = true)]
async fn a_queue_entered_late_is_left() {
    let bench = Bench::of(3);
    let (holder, place) = (claim(), claim());
    assert!(bench.acquire(&holder).await.unwrap());
    bench.members[1].pause();
    let standing = bench
        .quorum
        .enqueue(&place, None, deadline_in(PATIENCE))
        .await;
    assert!(matches!(standing, Ok(EnqueueReply::Queued(_))));
    let cancel = bench.quorum.cancel(&place, true, deadline_in(PATIENCE));
    assert!(!cancel.await.unwrap());
    tokio::time::sleep(PATIENCE).await;
    bench.members[1].resume();
    let is_left = || bench.members.iter().all(|it| it.state().queue.is_empty());
    bench.wait_until("all queues are left", is_left).await;
    assert!(bench.release(&holder).await.unwrap());
}

#[test]
fn a_release_is_reported_once_a_majority_has_notified() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let handler = heard.clone();
    let hints = ReleaseHints::new(5, Arc::new(move |news| handler.lock().unwrap().push(news)));
    let place = Token::random();
    let ears: Vec<_> = (0..5).map(|member| hints.handler(member)).collect();
    let first = |member: usize| ears[member](EngineEvent::AtFront(place));
    let take = || -> Vec<&str> {
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        let name = |news| match news {
            EngineEvent::AtFront(_) => "first",
            EngineEvent::MayBeFree(_) => "free",
            _ => "else",
        };
        heard.into_iter().map(name).collect()
    };
    first(0);
    assert!(take().is_empty(), "the claim does not wait");
    assert!(!hints.begin_poll(place));
    for member in [0, 0, 1, 1, 2, 3, 4] {
        first(member);
    }
    assert_eq!(take(), ["first", "free"]);
    assert!(hints.begin_poll(place));
    assert!(!hints.begin_poll(place), "it has polled since");
    // With two members unreachable, two are enough.
    hints.set_reachable(3, false);
    hints.set_reachable(4, false);
    first(0);
    first(1);
    assert_eq!(take(), ["first", "free"]);
    hints.remove(place);
    first(2);
    assert!(take().is_empty());
}
