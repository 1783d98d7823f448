//! Sentinels that fail, or whose messages are lost.

use std::time::{Duration, Instant};

use lock_runtime::LockManager;

use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::{NOISE, eventually, millis, within};

/// Returns the number of subscribers of a Sentinel.
fn listeners(sentinel: &Server) -> usize {
    let clients: String = sentinel.query("CLIENT LIST");
    clients
        .lines()
        .filter(|line| line.contains(" sub=1 "))
        .count()
}

async fn works(locks: &LockManager) {
    let lock = locks.lock("row").wait(millis(2000)).acquire();
    let guard = within(millis(2000) + NOISE, lock).await.unwrap();
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
    works(&locks).await;
    let held = locks
        .lock("held")
        .ttl(millis(2000))
        .acquire()
        .await
        .unwrap();
    // All Sentinels die, and the connections too.
    (1..3).for_each(|number| all.sentinel_mut(number).kill());
    let server = all.server(second);
    let start = Instant::now();
    while start.elapsed() < millis(2500) {
        server.query::<u64>("CLIENT KILL TYPE normal SKIPME yes");
        works(&locks).await;
        tokio::time::sleep(millis(200)).await;
    }
    assert!(held.is_valid(), "the lock was renewed");
    held.release().await.unwrap();
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
    let before = all.master();
    let new = all.failover();
    // The old master still runs, and may consider itself the master.
    tokio::time::sleep(Duration::from_millis(1500) + NOISE).await;
    let guard = locks.lock("row").try_acquire().await.unwrap().unwrap();
    assert!(
        all.server(new).exists("lock:row"),
        "server {before} is still used"
    );
    assert!(proxies.iter().any(|proxy| proxy.lost_messages() > 0));
    guard.release().await.unwrap();
}
