use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::soon;
use crate::engine::tests::space::Space;

pub(super) async fn text_that_the_server_cannot_send_is_refused(space: Space) {
    let peer = space.peer().await;
    let long = peer.engine.ask(&"x".repeat(8000), soon()).await;
    let long = long.unwrap_err();
    assert_eq!(long.kind, EngineErrorKind::Rejected, "{long}");
    assert!(peer.engine.ask("a\0b", soon()).await.is_err());
    peer.ask("report").await;
}
