//! Reports of processes.

use super::{LONG, Peer, soon};
use crate::config::Config;
use crate::engine::operations::StoredReport;
use crate::process::ProcessId;
use lock_test_support::time::eventually;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;
use std::time::Duration;

impl Peer {
    async fn report(&self, text: &str) {
        let report = self.engine.report(self.process, text.into(), soon());
        report.await.unwrap();
    }

    async fn reports(&self, of: Option<&[ProcessId]>) -> Vec<StoredReport> {
        let mut reports = self.engine.reports(of, soon()).await.unwrap();
        reports.sort_by_key(|report| report.process.to_string());
        reports
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_replaced_and_end_with_their_process() {
    let zookeeper = ZooKeeper::start();
    let (one, other) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    assert_eq!(one.reports(None).await, []);
    one.report("first").await;
    other.report("2\tö\0\n").await;
    one.report("second").await;
    let texts = |reports: &[StoredReport]| {
        let texts = reports.iter().map(|it| (it.process, it.text.to_string()));
        texts.collect::<Vec<_>>()
    };
    let all = texts(&other.reports(None).await);
    assert_eq!(all.len(), 2);
    assert!(all.contains(&(one.process, "second".into())));
    assert!(all.contains(&(other.process, "2\tö\0\n".into())));
    let of = [one.process, ProcessId::random()];
    let some = other.reports(Some(&of)).await;
    assert_eq!(texts(&some), [(one.process, "second".into())]);
    assert!(some[0].age.unwrap() < LONG);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let older = other.reports(Some(&of)).await[0].age.unwrap();
    assert!(older >= Duration::from_secs(1) && older < LONG * 2);
    assert_eq!(other.reports(Some(&[])).await, []);
    drop(one);
    let processes = || zookeeper.client().children("/lock/::processes");
    eventually("it ends", || processes().len() == 1);
    assert_eq!(other.reports(None).await[0].process, other.process);
}

#[tokio::test(flavor = "multi_thread")]
async fn report_is_stored_again_in_the_next_session() {
    let zookeeper = ZooKeeper::start();
    let proxy = zookeeper.proxy(0);
    let url = format!("zookeeper://127.0.0.1:{}", proxy.port());
    let one = Peer::with(Config::new(&*url).ttl(Duration::from_secs(1))).await;
    one.report("first").await;
    one.report("last").await;
    let processes = || zookeeper.client().children("/lock/::processes").len();
    proxy.cut();
    proxy.heal();
    // The ping itself may be cut off.
    let pings = async { while one.engine.ping(soon()).await.is_err() {} };
    tokio::time::timeout(LONG, pings).await.unwrap();
    assert_eq!(processes(), 1);
    proxy.black_hole();
    eventually("its session ends", || processes() == 0);
    proxy.heal();
    eventually("it is stored again", || processes() == 1);
    let other = Peer::connect(&zookeeper.url()).await;
    let reports = other.reports(None).await;
    assert_eq!(&*reports[0].text, "last");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_report_is_read() {
    let zookeeper = ZooKeeper::start();
    let peer = Peer::connect(&zookeeper.url()).await;
    peer.report(&"ö".repeat(20_000)).await;
    let mut client = zookeeper.client();
    for (name, data) in [
        ("0000001", &b"\xff\0\n\t"[..]),
        ("0000002", &vec![b'x'; 1_000_000]),
        ("0000003", b""),
        ("no process", b"1"),
        ("00000ag", b"1"),
        ("0000001x", b"1"),
    ] {
        let path = format!("/lock/::processes/{name}");
        client.create(&path, Kind::Persistent).unwrap();
        client.set(&path, data).unwrap();
    }
    let refused = "/lock/::processes/0000004";
    client
        .create_with(refused, Kind::Persistent, 31 - 1)
        .unwrap();
    let reports = peer.reports(None).await;
    assert_eq!(reports.len(), 4);
    assert!(
        reports
            .iter()
            .all(|report| report.text.len() <= 16 * 1024 + 2)
    );
    let of = |number| reports.iter().find(|it| it.process == ProcessId(number));
    assert_eq!(&*of(1).unwrap().text, "\u{fffd}\0\n\t");
    assert_eq!(of(2).unwrap().text.len(), 16 * 1024);
    assert_eq!(&*of(3).unwrap().text, "");

    // Another client has a node in the place of the own one, which is no obstacle unless there are others below it.
    let path = format!("/lock/::processes/{}", peer.process);
    assert!(client.delete(&path));
    client.create(&path, Kind::Persistent).unwrap();
    peer.report("mine").await;
    assert_eq!(&*peer.reports(Some(&[peer.process])).await[0].text, "mine");
    drop(peer);
    eventually("it ends", || !client.exists(&path));
}
