//! Asking all processes.

use super::{Peer, soon};
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

impl Peer {
    async fn is_asked(&mut self, count: usize) -> HashSet<Arc<str>> {
        let mut asked = HashSet::new();
        for _ in 0..count {
            let text = self.asked().await;
            assert!(asked.insert(text.clone()), "{text} comes twice");
        }
        asked
    }

    async fn is_left_alone(&mut self) {
        let asked = timeout(Duration::from_millis(500), self.asked.recv()).await;
        assert!(asked.is_err(), "{asked:?}");
    }
}

/// However fast they follow one another.
#[tokio::test(flavor = "multi_thread")]
async fn all_who_listen_get_each_ask_once() {
    let zookeeper = ZooKeeper::start();
    let (mut one, mut other, quiet) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    quiet.engine.ask("before", soon()).await.unwrap();
    one.until_it_listens(&quiet).await;
    other.until_it_listens(&quiet).await;
    one.engine.listen();
    while timeout(Duration::from_millis(300), one.asked.recv())
        .await
        .is_ok()
    {}
    let texts: Vec<_> = (0..60).map(|n| format!("{n}\n\0 ö")).collect();
    let asks = texts.iter().map(async |text| {
        let asked = quiet.engine.ask(text, soon()).await;
        asked.unwrap();
    });
    crate::util::join_all::join_all(asks).await;
    quiet.engine.ask("report", soon()).await.unwrap();
    quiet.engine.ask("report", soon()).await.unwrap();
    let expected: HashSet<Arc<str>> = texts.iter().map(|it| it.as_str().into()).collect();
    for peer in [&mut one, &mut other] {
        assert_eq!(peer.is_asked(60).await, expected);
        assert_eq!(&*peer.asked().await, "report");
        assert_eq!(&*peer.asked().await, "report");
        peer.is_left_alone().await;
    }
    let long = "x".repeat(5000);
    assert!(quiet.engine.ask(&long, soon()).await.is_err());
}

/// What comes while the connection is broken is delivered when there is one again, and nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn listener_goes_on_after_its_connection_and_its_session() {
    let zookeeper = ZooKeeper::start();
    let proxy = zookeeper.proxy(0);
    let url = format!("zookeeper://127.0.0.1:{}", proxy.port());
    let (mut one, other) = (
        Peer::with(crate::config::Config::new(&*url).ttl(Duration::from_secs(1))).await,
        Peer::connect(&zookeeper.url()).await,
    );
    one.until_it_listens(&other).await;
    for n in 0..3 {
        proxy.cut();
        let text = n.to_string();
        other.engine.ask(&text, soon()).await.unwrap();
        proxy.heal();
        assert_eq!(*one.asked().await, *text);
        one.is_left_alone().await;
    }
    proxy.black_hole();
    let sessions = || zookeeper.client().children("/lock/::sessions").len() == 1;
    lock_test_support::time::eventually("the session ends", sessions);
    proxy.heal();
    one.engine.ping(soon()).await.ok();
    other.engine.ask("late", soon()).await.unwrap();
    assert_eq!(&*one.asked().await, "late");
    one.is_left_alone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_asks_nothing_and_breaks_nothing() {
    let zookeeper = ZooKeeper::start();
    let (mut one, other) = (
        Peer::connect(&zookeeper.url()).await,
        Peer::connect(&zookeeper.url()).await,
    );
    one.until_it_listens(&other).await;
    let mut client = zookeeper.client();
    let count = 5_i32.to_be_bytes();
    for data in [
        &b"hello"[..],
        &[0xff; 999],
        &count,
        &[&count[..], &[0; 20]].concat(),
        &vec![0; 900_000],
    ] {
        client.set("/lock/::asks", data).unwrap();
        one.is_left_alone().await;
        other.engine.ask("again", soon()).await.unwrap();
        assert_eq!(&*one.asked().await, "again");
    }
    assert!(client.delete("/lock/::asks"));
    other.engine.ask("anew", soon()).await.unwrap();
    assert_eq!(&*one.asked().await, "anew");
    client
        .create("/lock/::asks/child", Kind::Persistent)
        .unwrap();
    other.engine.ask("beside a child", soon()).await.unwrap();
    assert_eq!(&*one.asked().await, "beside a child");
}

/// Neither the watch nor the report keeps a session that nobody needs.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_end_with_the_engine() {
    let zookeeper = ZooKeeper::start();
    let mut client = zookeeper.client();
    for is_drained in [true, false] {
        let (mut one, other) = (
            Peer::connect(&zookeeper.url()).await,
            Peer::connect(&zookeeper.url()).await,
        );
        one.until_it_listens(&other).await;
        let report = one.engine.report(one.process, "hello".into(), soon());
        report.await.unwrap();
        if is_drained {
            one.engine.drain().await.unwrap();
            assert_eq!(client.children("/lock/::processes"), [""; 0]);
            assert_eq!(client.children("/lock/::sessions").len(), 1);
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(client.children("/lock/::sessions").len(), 1);
        }
        drop((one, other));
        let all_end = || client.children("/lock/::sessions").is_empty();
        lock_test_support::time::eventually("the sessions end", all_end);
    }
}
