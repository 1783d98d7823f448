//! Asking all processes.

use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use crate::engine::tests::peer::{Peer, soon};
use crate::engine::tests::space::Space;
use lock_test_support::etcd::Etcd;

/// It need not listen. What is asked while it is cut off is lost, and what it has received does not come
/// again.
pub(super) async fn an_ask_reaches_every_process_that_is_connected(space: Space) {
    let (etcd, key) = (space.servers::<Etcd>(), format!("{}::asks", space.prefix));
    let (network, mut one) = space.distant_peer().await.unwrap();
    let [mut other, mut operator] = space.peers().await;
    // Connecting does not wait for the watch.
    one.until_it_hears(&operator).await;
    other.until_it_hears(&operator).await;
    operator.ask("first").await;
    for peer in [&mut one, &mut other, &mut operator] {
        peer.hears("first").await;
    }
    network.proxies[0].black_hole();
    operator.ask("second").await;
    other.hears("second").await;
    one.connect_again(&network).await;
    one.until_it_hears(&operator).await;
    for text in ["third", "third"] {
        operator.ask(text).await;
        one.hears(text).await;
        other.hears(text).await;
    }
    operator.engine.drain(soon()).await.unwrap();
    assert_eq!(etcd.ctl(&["get", &key]), "");
    etcd.ctl(&["put", &key, &"z".repeat(100_000)]);
    one.hears(&"z".repeat(16 << 10)).await;
    etcd.ctl(&["del", &key]);
}

#[tokio::test]
async fn a_watch_of_asks_whose_history_is_gone_is_made_again() {
    let server = ScriptedServer::start().await;
    let mut peer = Peer::connect(server.config()).await;
    server.end_watch_and_ask("report").await;
    peer.hears("report").await;
}
