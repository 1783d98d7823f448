//! Sentinels that fail, or whose messages are lost.

use lock_runtime::LockManager;

use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::proxy::Proxy;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, millis, soon};

/// Returns the number of subscribers of a Sentinel.
fn listeners(sentinel: &Server) -> usize {
    let clients: String = sentinel.query("CLIENT LIST");
    clients
        .lines()
        .filter(|line| line.contains(" sub=1 "))
        .count()
}

async fn works(locks: &LockManager) {
    let lock = locks.lock("row").wait(PATIENCE).acquire();
    let guard = soon(lock).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn locks_work_while_all_sentinels_are_down() {
    let mut all = Sentinels::start();
    let another = connected(all.url()).await;
    works(&another).await;
    let start = listeners(all.sentinel(0));
    drop(another);
    eventually("no subscribers are left", || {
        (0..3).all(|number| listeners(all.sentinel(number)) == 0)
    });
    assert_eq!(start, 1);
    let locks = connected(all.url()).await;
    // The two remaining Sentinels suffice.
    all.sentinel_mut(0).kill();
    works(&locks).await;
    let second = all.failover();
    // A lock of the former master may be lost before it is released.
    follows(&locks, all.server(second)).await;
    let lock = locks.lock("held").ttl(millis(6000));
    let held = lock.acquire().await.unwrap();
    // All Sentinels die, and the connections too.
    (1..3).for_each(|number| all.sentinel_mut(number).kill());
    let server = all.server(second);
    for _ in 0..4 {
        server.query::<u64>("CLIENT KILL TYPE normal SKIPME yes");
        works(&locks).await;
    }
    until_renewed([&held]).await;
    held.release().await.unwrap();
}

/// Waits until locks are acquired on that server.
async fn follows(locks: &LockManager, master: &Server) {
    let found = async {
        loop {
            let guard = locks.lock("row").wait(PATIENCE).acquire().await.unwrap();
            let is_there = master.exists("lock:row");
            let released = guard.release().await;
            if is_there {
                return released.unwrap();
            }
        }
    };
    soon(found).await;
}

/// All messages are lost; polling finds the new master soon enough.
#[tokio::test]
async fn lost_failover_message_is_found_by_polling() {
    let all = Sentinels::start();
    let deaf = |port| Proxy::losing_messages(port, 100);
    let proxies: Vec<_> = all.sentinel_ports().map(deaf).collect();
    let hosts: Vec<_> = proxies
        .iter()
        .map(|proxy| format!("127.0.0.1:{}", proxy.port()))
        .collect();
    let url = format!("redis-sentinel://{}/mymaster", hosts.join(","));
    let locks = connected(url).await;
    works(&locks).await;
    let new = all.failover();
    // The old master still runs, and may consider itself the master.
    follows(&locks, all.server(new)).await;
    assert!(proxies.iter().any(|proxy| proxy.lost_messages() > 0));
}
