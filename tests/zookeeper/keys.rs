//! Names that paths cannot have, and lines that are longer than a message of a server may usually be.

use lock_runtime::LockManager;

use lock_test_support::manager::{connected, refusal};
use lock_test_support::time::{eventually, patient, soon};
use lock_test_support::zookeeper::ZooKeeper;
use lock_test_support::zookeeper::client::Kind;

#[tokio::test(flavor = "multi_thread")]
async fn odd_roots_prefixes_and_keys_are_paths_of_their_own() {
    let zookeeper = ZooKeeper::start();
    let longest = "/".repeat(8000);
    for root in ["/tea%20house/gr%C3%B6%C3%9Fe", "/100%25/a:b", "/x//y/"] {
        for prefix in ["lock:", "", "/", "a//b:", "..:", "🔒/"] {
            let url = format!("{}{root}", zookeeper.url());
            let locks = connected(patient(&*url).prefix(prefix)).await;
            let keys = [
                "a/b", "a%2Fb", "..", ".", "\u{1}", "🔒", " ", "a:b", &longest,
            ];
            let mut guards = Vec::new();
            for key in keys {
                let guard = locks.lock(key).acquire().await;
                guards.push(guard.unwrap_or_else(|error| panic!("{prefix}{key}: {error}")));
            }
            assert_eq!(zookeeper.claims().len(), keys.len());
            for guard in guards {
                guard.release().await.unwrap();
            }
            locks.shutdown().await;
        }
    }
    for root in ["/a/../b", "/%00", "/a/."] {
        let (_, text) = refusal(format!("{}{root}", zookeeper.url()), "secret").await;
        assert!(text.contains("the path"), "{text}");
    }
}

/// A server sends more than its limit for messages of clients, 1 MB.
#[tokio::test(flavor = "multi_thread")]
async fn line_of_more_than_a_megabyte_is_waited_in() {
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(zookeeper.url())).await;
    let mut client = zookeeper.client();
    client.create_all("/lock/row");
    let name = "x".repeat(9000);
    let claims: Vec<_> = (0..150)
        .map(|_| {
            let path = format!("/lock/row/{name}-lock-");
            client.create(&path, Kind::EphemeralNumbered).unwrap()
        })
        .collect();
    assert!(locks.lock("row").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(locks.lock("row").acquire());
    for claim in claims {
        assert!(!waiter.is_finished());
        assert!(client.delete(&claim));
    }
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}

/// The deletion is repeated until the claim's session ends, or its user may delete it again.
#[tokio::test(flavor = "multi_thread")]
async fn refused_release_is_reported() {
    const DELETE: i32 = 8;
    let zookeeper = ZooKeeper::start();
    let locks = connected(patient(&*zookeeper.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let mut client = zookeeper.client();
    client.allow("/lock/row", 31 - DELETE).unwrap();
    let refused = soon(guard.release()).await.unwrap_err();
    let source = std::error::Error::source(&refused).map(ToString::to_string);
    let words = source.unwrap_or_default();
    assert!(words.contains("access control list"), "{refused}: {words}");
    client.allow("/lock/row", 31).unwrap();
    eventually("it is deleted", || zookeeper.claims().is_empty());
    locks.shutdown().await;
}

/// Another client has made the lock's node, whose data cannot be changed, in a node that may have no others.
#[tokio::test(flavor = "multi_thread")]
async fn lock_whose_node_may_not_be_written_works() {
    const WRITE: i32 = 2;
    const CREATE: i32 = 4;
    let zookeeper = ZooKeeper::start();
    let mut client = zookeeper.client();
    client.create_all("/a");
    let kind = Kind::Persistent;
    client.create_with("/a/b", kind, 31).unwrap();
    client.create_with("/a/b/::sessions", kind, 31).unwrap();
    client.create_with("/a/b/row", kind, 31 - WRITE).unwrap();
    client.allow("/a/b", 31 - CREATE).unwrap();
    let url = format!("{}/a", zookeeper.url());
    let locks = connected(patient(&*url).prefix("b:")).await;
    let other = connected(patient(&*url).prefix("b:")).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    assert!(other.lock("row").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(other.lock("row").acquire());
    eventually("it waits", || zookeeper.claims().len() == 2);
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    let reader = |locks: &LockManager| locks.lock("row").read().acquire();
    let (one, two) = tokio::join!(reader(&locks), reader(&other));
    one.unwrap().release().await.unwrap();
    two.unwrap().release().await.unwrap();
    assert!(zookeeper.claims().is_empty());
    locks.shutdown().await;
    other.shutdown().await;
}
