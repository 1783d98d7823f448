//! Names of locks.

use super::{Peer, soon};
use crate::config::Config;
use crate::limit::Limit;
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

impl Peer {
    async fn names(&self, prefix: &str, most: usize) -> Vec<String> {
        let names = self.engine.names(prefix, most, soon()).await.unwrap();
        names.iter().map(ToString::to_string).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_locks_in_use_are_found() {
    let zookeeper = ZooKeeper::start();
    let mut peer = Peer::connect(&zookeeper.url()).await;
    let report = peer.engine.report(peer.process, "hello".into(), soon());
    report.await.unwrap();
    let operator = Peer::connect(&zookeeper.url()).await;
    peer.until_it_listens(&operator).await;
    let keys = ["order/2", "order/1", "order%", "..", "🔒", "other"];
    let claims = keys.map(|key| peer.claim(key, Limit::EXCLUSIVE));
    for claim in &claims {
        assert!(peer.enter(claim).await);
    }
    let token = claims[5].token.encode(&mut [0; 37]).to_owned();
    let taken = operator.engine.take("lock:other", &token, 0, soon()).await;
    assert!(taken.unwrap().held);
    let mut client = zookeeper.client();
    client.create("/lock/free", Kind::Persistent).unwrap();
    client.create("/lock/%zz", Kind::Persistent).unwrap();
    client.create("/lock/%zz/x", Kind::Persistent).unwrap();
    let before = client.all_below("/lock");
    let mut all = keys[..5]
        .iter()
        .map(|key| format!("lock:{key}"))
        .collect::<Vec<_>>();
    all.sort();
    assert_eq!(operator.names("lock:", 9).await, all);
    assert_eq!(operator.names("lock:order", 9).await, all[1..4]);
    assert_eq!(operator.names("lock:order", 2).await, all[1..3]);
    assert_eq!(operator.names("lock:order", 0).await, [""; 0]);
    assert_eq!(operator.names("lock:z", 9).await, [""; 0]);
    assert_eq!(client.all_below("/lock"), before);

    // A directory for itself, and none.
    for prefix in ["a/b:c", ""] {
        let config = Config::new(zookeeper.url()).prefix(prefix);
        let peer = Peer::with(config).await;
        let mut claim = peer.claim("x", Limit::EXCLUSIVE);
        claim.name = format!("{prefix}mine").into();
        assert!(peer.enter(&claim).await);
        let names = peer.names(&claim.name, 9).await;
        assert_eq!(names, [claim.name.to_string()]);
        peer.engine.release(&claim, soon()).await.unwrap();
    }
    for claim in &claims {
        peer.engine.release(claim, soon()).await.unwrap();
    }
    assert_eq!(operator.names("lock:", 9).await, [""; 0]);
}

/// More than a window, most of which are free.
#[tokio::test(flavor = "multi_thread")]
async fn names_are_found_among_many_that_are_free() {
    let zookeeper = ZooKeeper::start();
    let peer = Peer::connect(&zookeeper.url()).await;
    let mut client = zookeeper.client();
    client.create_all("/lock");
    for n in 0..600 {
        client
            .create(&format!("/lock/{n:03}"), Kind::Persistent)
            .unwrap();
    }
    let claims = ["007", "300", "599"].map(|key| peer.claim(key, Limit::EXCLUSIVE));
    for claim in &claims {
        assert!(peer.enter(claim).await);
    }
    let names = claims.each_ref().map(|claim| claim.name.to_string());
    assert_eq!(peer.names("lock:", 9).await, names);
    assert_eq!(peer.names("lock:", 2).await, names[..2]);
    for claim in &claims {
        peer.engine.release(claim, soon()).await.unwrap();
    }
}
