//! Taking a lock from its holder.

use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::{soon, text};
use crate::engine::tests::space::Space;
use crate::limit::Limit;

/// In microseconds, which PostgreSQL's fencing tokens count.
const DAY: u64 = 24 * 3600 * 1_000_000;

/// How far a number is raised where it does not count what the server writes.
const FAR: u64 = 1_000_000_000;

/// Its number is greater than all before it, and less than all that follow.
pub(crate) async fn lock_passes_to_the_next(space: Space) {
    let [holder, mut next, operator] = space.peers().await;
    let held = holder.hold("row").await;
    let first = holder.number(&held).await.unwrap();
    let waits = next.wait("row").await;
    let taken = operator.take_from(&held).await;
    assert!(taken.held && !taken.pinned, "{taken:?}");
    assert!(taken.fencing_token > first, "{taken:?} after {first}");
    let granted = next.until_granted(&waits).await;
    let second = next.number(&granted).await.unwrap();
    assert!(second > taken.fencing_token, "{second} after {taken:?}");

    // Whatever the former holder sends comes too late.
    assert!(!holder.renew(&held).await);
    assert_eq!(holder.number(&held).await, None);
    if holder.engine.refuses_downgrade().is_none() {
        assert!(holder.downgrade(&held).await.is_none());
    }
    assert!(!holder.release(&held).await);
    assert!(!holder.cancel(&held).await);

    let again = operator.take_from(&held).await;
    assert!(!again.held && again.fencing_token >= second, "{again:?}");
    let expected = [vec![text(&granted)], vec![]];
    assert_eq!(operator.view("row").await, expected);
    assert!(next.number(&granted).await.unwrap() > again.fencing_token);
    assert!(next.release(&granted).await);
}

pub(crate) async fn another_token_takes_nothing(space: Space) {
    let [one, other] = space.peers().await;
    let held = one.hold("row").await;
    let first = one.number(&held).await.unwrap();
    let waits = other.wait("row").await;
    let (token, never) = (text(&held), text(&one.claim("row", Limit::EXCLUSIVE)));
    let view = [vec![token.clone()], vec![text(&waits)]];
    for wrong in ["", "?", "*", "row/1", &never, &token[1..]] {
        let taken = other.take("row", wrong).await;
        assert!(!taken.held && taken.fencing_token >= first, "{wrong:?}");
        assert_eq!(other.view("row").await, view, "{wrong:?}");
    }
    assert!(!other.take("other", &token).await.held);
    assert!(one.renew(&held).await);
    other.cancel(&waits).await;
    assert!(one.release(&held).await);
    let taken = other.take("row", &token).await;
    assert!(!taken.held && taken.fencing_token > 0, "{taken:?}");
}

/// A number that leaves none for later is refused, and changes nothing.
pub(crate) async fn number_is_raised_for_good(space: Space) {
    let peer = space.peer().await;
    let (name, held) = (space.name("row"), peer.hold("row").await);
    let before = peer.number(&held).await.unwrap();
    let token = text(&held);
    let take = |at_least| peer.engine.take(&name, &token, at_least, soon());
    let leap = if space.has_lines { 1 } else { FAR };
    if space.refuses_far {
        for far in [before + 3 * DAY, i64::MAX as u64, u64::MAX] {
            let refused = take(far).await.unwrap_err();
            assert_eq!(refused.kind, EngineErrorKind::Rejected, "{far}");
        }
        assert!(peer.renew(&held).await);
    }
    let at_least = before + leap;
    let taken = take(at_least).await.unwrap();
    assert!(taken.held && taken.fencing_token >= at_least, "{taken:?}");
    let next = peer.hold("row").await;
    let mut last = taken.fencing_token;
    for _ in 0..3 {
        let number = peer.number(&next).await.unwrap();
        assert!(number > last, "{number} after {last}");
        last = number;
    }
    // Also for a token that no longer holds it.
    let raised = take(last + leap).await;
    let raised = raised.map_or(last, |taken| taken.fencing_token);
    assert!(peer.number(&next).await.unwrap() > raised);
    assert!(peer.release(&next).await);
}

pub(crate) async fn taken_token_never_holds_again(space: Space) {
    if space.is_quorum {
        return;
    }
    let [one, operator] = space.peers().await;
    for limit in [Limit::EXCLUSIVE, Limit::UNLIMITED] {
        let held = one.claim("row", limit);
        one.enters(&held).await;
        assert!(operator.take_from(&held).await.held);
        assert!(one.is_stale(&held).await);
        assert!(operator.view("row").await.concat().is_empty());
        let next = one.acquire(&one.attempt("row", limit)).await.unwrap();
        assert!(!one.cancel(&held).await);
        // A process makes no entry in a line for a token that it has canceled.
        assert!(space.has_lines || one.is_stale(&held).await);
        assert!(one.release(&next).await);
        assert!(space.has_lines || one.is_stale(&held).await);
    }
}

pub(crate) async fn taken_waiter_leaves_the_queue(space: Space) {
    if !space.takes_waiters {
        return;
    }
    let [one, mut other, operator] = space.peers().await;
    let held = one.hold("row").await;
    let (first, second) = (other.wait("row").await, other.wait("row").await);
    assert!(!operator.take_from(&first).await.held);
    let expected = [vec![text(&held)], vec![text(&second)]];
    assert_eq!(operator.view("row").await, expected);
    other.until_stale(&first).await;
    assert!(one.release(&held).await);
    let granted = other.until_granted(&second).await;
    assert!(other.release(&granted).await);
}

pub(crate) async fn readers_are_taken_one_by_one(space: Space) {
    let [one, mut other, operator] = space.peers().await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(one.read("page").await);
    }
    readers.sort_by_key(text);
    let writer = other.wait("page").await;
    let mut last = one.number(&readers[0]).await;
    for (n, reader) in readers.iter().enumerate() {
        let taken = operator.take_from(reader).await;
        assert!(taken.held && Some(taken.fencing_token) > last, "{taken:?}");
        assert!(!operator.take_from(reader).await.held);
        let left: Vec<_> = readers[n + 1..].iter().map(text).collect();
        if !left.is_empty() {
            let expected = [left, vec![text(&writer)]];
            assert_eq!(operator.view("page").await, expected);
        }
        for (of, reader) in readers.iter().enumerate() {
            assert_eq!(one.renew(reader).await, of > n, "{of} after {n}");
        }
        last = Some(taken.fencing_token);
    }
    let writer = other.until_granted(&writer).await;
    assert!(other.number(&writer).await > last);
    assert!(other.release(&writer).await);
}

pub(crate) async fn downgraded_holder_is_taken_by_its_present_token(space: Space) {
    let [one, operator] = space.peers().await;
    if one.engine.refuses_downgrade().is_some() {
        return;
    }
    let held = one.hold("row").await;
    let shares = one.downgrade(&held).await.unwrap();
    let [holders, _] = operator.view("row").await;
    assert_eq!(holders, [text(&shares)]);
    assert!(!operator.take_from(&held).await.held);
    assert!(operator.take("row", &holders[0]).await.held);
    assert!(operator.view("row").await.concat().is_empty());
}
