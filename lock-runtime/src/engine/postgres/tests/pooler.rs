use super::Space;
use crate::engine::tests::peer::Peer;

/// Each request makes its settings those of its transaction.
pub(super) async fn operations_pass_a_pooler(space: Space) {
    let pooler = space.pooler();
    let mut direct = space.peer().await;
    let pooled = Peer::connect(space.config_at(&pooler.url())).await;
    direct.engine.listen();
    let held = direct.hold("row").await;
    pooled.report("report").await;
    assert_eq!(pooled.reports(None).await[0].process, pooled.id);
    assert_eq!(pooled.keys("", 9).await, ["row"]);
    let waits = direct.wait("row").await;
    assert!(pooled.take_from(&held).await.held);
    let granted = direct.until_granted(&waits).await;
    direct.until_it_hears(&pooled).await;
    assert!(direct.release(&granted).await);
}
