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
