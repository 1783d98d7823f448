//! Reports of processes.

use super::{black_hole, heal};
use crate::engine::tests::peer::{soon, until};
use crate::engine::tests::space::Space;
use crate::process::ProcessId;
use lock_test_support::proxy::Proxy;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

pub(super) async fn report_is_stored_again_in_the_next_session(space: Space) {
    let (network, one) = space.distant_peer_with_short_sessions().await;
    one.report("first").await;
    one.report("last").await;
    let stored = || space.children("::processes").len();
    network.each(Proxy::cut);
    heal(&network);
    // The ping itself may be cut off.
    until("it is connected again", async || {
        one.engine.ping(soon()).await.is_ok()
    })
    .await;
    assert_eq!(stored(), 1);
    black_hole(&network);
    until("its session ends", async || stored() == 0).await;
    heal(&network);
    until("it is stored again", async || stored() == 1).await;
    let reports = space.peer().await.reports(None).await;
    assert_eq!(&*reports[0].text, "last");
}

pub(super) async fn any_report_is_read(space: Space) {
    let peer = space.peer().await;
    peer.report(&"ö".repeat(20_000)).await;
    let mut client = space.servers::<ZooKeeper>().client();
    for (name, data) in [
        ("0000001", &b"\xff\0\n\t"[..]),
        ("0000002", &vec![b'x'; 1_000_000]),
        ("0000003", b""),
        ("no process", b"1"),
        ("00000ag", b"1"),
        ("0000001x", b"1"),
    ] {
        let path = space.path(&format!("::processes/{name}"));
        client.create(&path, Kind::Persistent).unwrap();
        client.set(&path, data).unwrap();
    }
    let refused = space.path("::processes/0000004");
    client
        .create_with(&refused, Kind::Persistent, 31 - 1)
        .unwrap();
    let reports = peer.reports(None).await;
    assert_eq!(reports.len(), 4);
    let is_short = |text: &str| text.len() <= 16 * 1024 + 2;
    assert!(reports.iter().all(|report| is_short(&report.text)));
    let of = |number| reports.iter().find(|it| it.process == ProcessId(number));
    assert_eq!(&*of(1).unwrap().text, "\u{fffd}\0\n\t");
    assert_eq!(of(2).unwrap().text.len(), 16 * 1024);
    assert_eq!(&*of(3).unwrap().text, "");

    // Another client has a node in the place of the own one, which is no obstacle unless there are others
    // below it.
    let path = space.path(&format!("::processes/{}", peer.id));
    assert!(client.delete(&path));
    client.create(&path, Kind::Persistent).unwrap();
    peer.report("mine").await;
    assert_eq!(&*peer.reports(Some(&[peer.id])).await[0].text, "mine");
    drop(peer);
    let is_gone = async || {
        !space
            .children("::processes")
            .iter()
            .any(|it| path.ends_with(it))
    };
    until("it ends", is_gone).await;
}
