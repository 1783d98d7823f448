use crate::engine::request::EnqueueReply;
use crate::engine::tests::space::Space;

/// No claim looks by itself here.
pub(super) async fn release_rings_for_the_next_process(space: Space) {
    let [one, mut other] = space.peers().await;
    let (held, waits) = (one.hold("row").await, other.wait("row").await);
    // The first bell is its own, from when it began to listen.
    other.until_notified(&waits).await;
    while other.events.try_recv().is_ok() {}
    assert!(one.release(&held).await);
    other.until_notified(&waits).await;
    let entered = other.enter(&waits).await;
    assert!(matches!(
        entered,
        EnqueueReply::Granted(_) | EnqueueReply::AlreadyHeld(_)
    ));
    assert!(other.release(&waits).await);
}

/// It hands the lock to its own callers as long as it knows of no others.
pub(super) async fn first_waiter_of_another_process_rings_for_the_holder(space: Space) {
    let [mut one, other] = space.peers().await;
    let (held, local) = (one.hold("row").await, one.wait("row").await);
    one.until_notified(&local).await;
    while one.events.try_recv().is_ok() {}
    let waits = other.wait("row").await;
    one.until_notified(&local).await;
    for claim in [&held, &local] {
        assert!(one.release(claim).await);
    }
    assert!(other.release(&waits).await);
}
