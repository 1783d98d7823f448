//! Curator's `InterProcessMutex` queues in the same line.
//!
//! The names of its nodes are those that Curator 5 creates, `_c_` *uuid* `-lock-` *number*, and so is the
//! rule by which it holds the lock: its node is the first by the ten digits behind `lock-`, whatever is
//! before them.

use lock_test_support::manager::{connected, use_once};
use lock_test_support::time::{eventually, millis, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::{Client, Kind};

const LOCK: &str = "/lock/order";

/// A client that does what Curator's does.
struct Curator {
    client: Client,
    node: String,
}

impl Curator {
    fn enter(zookeeper: &ZooKeeper) -> Self {
        let mut client = zookeeper.client();
        client.create_all(LOCK);
        let path = format!("{LOCK}/_c_2e4f8a8c-6d5b-4f0e-9b1a-0c7d3e5f6a7b-lock-");
        let node = client.create(&path, Kind::EphemeralNumbered).unwrap();
        Self { client, node }
    }

    fn has_lock(&mut self) -> bool {
        let mut children = self.client.children(LOCK);
        let number = |name: &String| {
            name.rsplit_once("lock-")
                .map(|(_, number)| number.to_owned())
        };
        children.sort_by_key(number);
        self.node.ends_with(&children[0])
    }

    fn release(mut self) {
        assert!(self.client.delete(&self.node));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_guards_exclude_each_other_in_order() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let first = Curator::enter(&zookeeper);
    assert!(locks.lock("order").try_acquire().await.unwrap().is_none());
    let reader = locks.lock("order").read();
    assert!(reader.try_acquire().await.unwrap().is_none());
    let second = tokio::spawn(locks.lock("order").acquire());
    eventually("it waits", || zookeeper.claims().len() == 2);
    let mut third = Curator::enter(&zookeeper);
    assert!(!third.has_lock() && !second.is_finished());
    let found = locks.inspect("order").await.unwrap();
    let ([holder], [ours, theirs]) = (found.holders(), found.waiters()) else {
        panic!("{found:?}");
    };
    assert_eq!(format!("{LOCK}/{}", holder.token()), first.node);
    assert_eq!(holder.process(), None);
    assert_eq!(ours.process(), Some(locks.process_id()));
    assert_eq!(format!("{LOCK}/{}", theirs.token()), third.node);
    first.release();
    let second = soon(second).await.unwrap().unwrap();
    assert!(!third.has_lock());
    second.release().await.unwrap();
    assert!(third.has_lock());
    third.release();
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_waits_for_all_readers() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let readers = || locks.lock("order").read();
    let (one, two) = tokio::join!(readers().acquire(), readers().acquire());
    let mut curator = Curator::enter(&zookeeper);
    one.unwrap().release().await.unwrap();
    assert!(!curator.has_lock());
    let late = locks.lock("order").read();
    let late = tokio::spawn(late.acquire());
    two.unwrap().release().await.unwrap();
    eventually("Curator has the lock", || curator.has_lock());
    assert!(!late.is_finished());
    curator.release();
    soon(late).await.unwrap().unwrap().release().await.unwrap();
    locks.shutdown().await;
}

/// A Curator client that died is skipped when its session ends.
#[tokio::test(flavor = "multi_thread")]
async fn node_of_a_dead_client_is_skipped() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let mut client = Client::with_timeout(zookeeper.port(0), millis(1000)).unwrap();
    client.create_all(LOCK);
    let path = format!("{LOCK}/_c_2e4f8a8c-6d5b-4f0e-9b1a-0c7d3e5f6a7b-lock-");
    client.create(&path, Kind::EphemeralNumbered).unwrap();
    drop(client);
    soon(use_once(&locks, "order")).await;
    locks.shutdown().await;
}
