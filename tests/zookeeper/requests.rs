//! How many requests a lock costs.

use std::time::Duration;

use lock_runtime::{Lock, LockManager, Report};

use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::patient;
use lock_test_support::zookeeper::ZooKeeper;

/// What the protocol calls a request.
const DELETE: i32 = 2;
const DATA: i32 = 4;
const LIST: i32 = 8;
const SYNC: i32 = 9;
const TRANSACTION: i32 = 14;

/// A client whose requests are recorded.
struct Client {
    locks: LockManager,
    proxy: Proxy,
    /// The number of those that were looked at.
    seen: usize,
}

impl Client {
    async fn of(zookeeper: &ZooKeeper) -> Self {
        let proxy = Proxy::recording(zookeeper.port(0));
        let url = format!("zookeeper://127.0.0.1:{}", proxy.port());
        let locks = connected(patient(url).report(Report::Off)).await;
        let mut client = Self {
            locks,
            proxy,
            seen: 0,
        };
        client.requests();
        client
    }

    /// Returns the requests since the last call, without pings.
    fn requests(&mut self) -> Vec<i32> {
        let recorded = self.proxy.recorded();
        let all: Vec<_> = recorded.iter().flat_map(|sent| operations(sent)).collect();
        let new = all[self.seen..].to_vec();
        self.seen = all.len();
        new
    }

    /// Acquires a lock, and releases it. Returns the requests.
    async fn use_one(&mut self, lock: Lock) -> Vec<i32> {
        let guard = lock.acquire().await.unwrap();
        guard.release().await.unwrap();
        self.requests()
    }
}

/// Returns the operations of the messages on one connection, without pings.
fn operations(mut sent: &[u8]) -> Vec<i32> {
    const PING: i32 = 11;
    let mut operations = Vec::new();
    while let Some((length, rest)) = sent.split_first_chunk::<4>() {
        let (message, rest) = rest.split_at(i32::from_be_bytes(*length) as usize);
        let operation = message[4..8].try_into().unwrap();
        operations.push(i32::from_be_bytes(operation));
        sent = rest;
    }
    operations.retain(|operation| *operation != PING);
    operations
}

#[tokio::test(flavor = "multi_thread")]
async fn new_key_costs_two_requests() {
    let zookeeper = ZooKeeper::start();
    let mut client = Client::of(&zookeeper).await;
    for n in 0..3 {
        let lock = client.locks.lock(format!("order:{n}"));
        assert_eq!(client.use_one(lock).await, [TRANSACTION, DELETE]);
        let lock = client.locks.lock(format!("tried:{n}")).wait(Duration::ZERO);
        assert_eq!(client.use_one(lock).await, [LIST, TRANSACTION, DELETE]);
    }
    client.locks.shutdown().await;
}

/// A transaction fails that was to create the lock's node.
#[tokio::test(flavor = "multi_thread")]
async fn key_of_others_costs_one_request_more_once() {
    let zookeeper = ZooKeeper::start();
    let mut client = Client::of(&zookeeper).await;
    // It is not removed when it is empty.
    zookeeper.client().create_all("/lock/row");
    let lock = || client.locks.lock("row");
    let (first, second, third) = (lock(), lock(), lock().wait(Duration::ZERO));
    let requests = client.use_one(first).await;
    assert_eq!(requests, [TRANSACTION, TRANSACTION, DELETE]);
    assert_eq!(client.use_one(second).await, [TRANSACTION, DELETE]);
    assert_eq!(client.use_one(third).await, [LIST, TRANSACTION, DELETE]);
    client.locks.shutdown().await;
}

/// The look at the line tells that the lock's node exists.
#[tokio::test(flavor = "multi_thread")]
async fn try_of_a_key_of_others_fails_no_transaction() {
    let zookeeper = ZooKeeper::start();
    let mut client = Client::of(&zookeeper).await;
    zookeeper.client().create_all("/lock/row");
    let lock = client.locks.lock("row").wait(Duration::ZERO);
    assert_eq!(client.use_one(lock).await, [LIST, TRANSACTION, DELETE]);
    client.locks.shutdown().await;
}

/// Only an exclusive claim may have been downgraded, which its data tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_look_reads_and_creates_nothing() {
    let zookeeper = ZooKeeper::start();
    let mut client = Client::of(&zookeeper).await;
    let nodes = || zookeeper.client().all_below("/lock");
    let before = nodes();
    let free = client.locks.inspect("row").await.unwrap();
    assert!(free.holders().is_empty());
    assert_eq!(client.requests(), [SYNC, LIST]);
    assert_eq!(nodes(), before);
    let lock = || client.locks.lock("row");
    for (lock, requests) in [
        // And what the holder tells of itself.
        (lock(), &[SYNC, LIST, DATA, SYNC, DATA][..]),
        (lock().read(), &[SYNC, LIST, SYNC, DATA]),
    ] {
        let guard = lock.acquire().await.unwrap();
        client.requests();
        let held = client.locks.inspect("row").await.unwrap();
        assert_eq!(held.holders().len(), 1);
        assert_eq!(client.requests(), requests);
        guard.release().await.unwrap();
    }
    client.locks.shutdown().await;
}
