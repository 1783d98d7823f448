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
const PROOF: i32 = 5;
const LIST: i32 = 8;
const SYNC: i32 = 9;
const TRANSACTION: i32 = 14;

/// A client whose requests are recorded.
struct Client {
    locks: LockManager,
    proxy: Proxy,
    /// The number of those that were looked at.
    seen: usize,
    /// The number of writes by which its session has proved that it lives, as it must from time to time.
    proofs: usize,
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
            proofs: 0,
        };
        client.requests();
        client
    }

    /// Returns the requests since the last call, without pings and proofs.
    fn requests(&mut self) -> Vec<i32> {
        let recorded = self.proxy.recorded();
        let all: Vec<_> = recorded.iter().flat_map(|sent| operations(sent)).collect();
        let mut new = all[self.seen..].to_vec();
        self.seen = all.len();
        let count = new.len();
        new.retain(|operation| *operation != PROOF);
        self.proofs += count - new.len();
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

async fn new_key_costs_two_requests(zookeeper: &ZooKeeper) {
    let mut client = Client::of(zookeeper).await;
    for n in 0..3 {
        let lock = client.locks.lock(format!("order:{n}"));
        assert_eq!(client.use_one(lock).await, [TRANSACTION, DELETE]);
        let lock = client.locks.lock(format!("tried:{n}")).wait(Duration::ZERO);
        assert_eq!(client.use_one(lock).await, [LIST, TRANSACTION, DELETE]);
    }
    assert!(client.proofs < 6, "not with each lock");
    client.locks.shutdown().await;
}

/// A transaction fails that was to create the lock's node.
async fn key_of_others_costs_one_request_more_once(zookeeper: &ZooKeeper) {
    let mut client = Client::of(zookeeper).await;
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
async fn try_of_a_key_of_others_fails_no_transaction(zookeeper: &ZooKeeper) {
    let mut client = Client::of(zookeeper).await;
    zookeeper.client().create_all("/lock/other");
    let lock = client.locks.lock("other").wait(Duration::ZERO);
    assert_eq!(client.use_one(lock).await, [LIST, TRANSACTION, DELETE]);
    client.locks.shutdown().await;
}

/// Only an exclusive claim may have been downgraded, which its data tells.
async fn a_look_reads_and_creates_nothing(zookeeper: &ZooKeeper) {
    let mut client = Client::of(zookeeper).await;
    let nodes = || zookeeper.client().all_below("/lock");
    let before = nodes();
    let free = client.locks.inspect("never").await.unwrap();
    assert!(free.holders().is_empty());
    assert_eq!(client.requests(), [SYNC, LIST]);
    assert_eq!(nodes(), before);
    let lock = || client.locks.lock("look");
    for (lock, requests) in [
        // And what the holder tells of itself.
        (lock(), &[SYNC, LIST, DATA, SYNC, DATA][..]),
        (lock().read(), &[SYNC, LIST, SYNC, DATA]),
    ] {
        let guard = lock.acquire().await.unwrap();
        client.requests();
        let held = client.locks.inspect("look").await.unwrap();
        assert_eq!(held.holders().len(), 1);
        assert_eq!(client.requests(), requests);
        guard.release().await.unwrap();
    }
    client.locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_and_looks_cost_few_requests() {
    let zookeeper = ZooKeeper::start();
    new_key_costs_two_requests(&zookeeper).await;
    key_of_others_costs_one_request_more_once(&zookeeper).await;
    try_of_a_key_of_others_fails_no_transaction(&zookeeper).await;
    a_look_reads_and_creates_nothing(&zookeeper).await;
}
