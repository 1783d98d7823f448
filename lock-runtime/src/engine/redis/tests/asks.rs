//! Asking all processes.

use crate::engine::error::EngineErrorKind;
use crate::engine::event::EngineEvent;
use crate::engine::tests::peer::soon;
use crate::engine::tests::space::Space;

/// The user may subscribe to the channels of grants alone.
pub(super) async fn locks_are_granted_without_the_right_to_listen(space: Space) {
    let channels = format!("resetchannels &{}::grants:*", space.prefix);
    space.grant_locks(&channels);
    let mut process = space.peer_of_user().await;
    process.engine.listen();
    process.until_resubscribed().await;
    let held = process.hold("door").await;
    let waits = process.wait("door").await;
    let error = process.engine.ask("report", soon()).await.unwrap_err();
    assert_eq!(error.kind, EngineErrorKind::Rejected);
    assert!(error.to_string().contains("channels"), "{error}");
    space.peer().await.ask("report").await;
    assert!(process.release(&held).await);
    // The grant would come after the ask.
    let is_asked = process.next(|event| match event {
        EngineEvent::Asked(_) => Some(true),
        EngineEvent::Granted(_) => Some(false),
        _ => None,
    });
    assert!(!is_asked.await);
    process.cancel(&waits).await;
}
