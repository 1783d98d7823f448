//! Members that die or freeze.

use lock_runtime::Config;

use lock_test_support::etcd::Etcd;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, millis, patient, within};

/// A command timeout that abandons a killed member soon.
fn brisk(etcd: &Etcd) -> Config {
    let timeout = millis(1500);
    patient(etcd.url()).command_timeout(timeout)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_leader_ends_no_lock() {
    let mut etcd = Etcd::three();
    let (one, other) = (connected(brisk(&etcd)).await, connected(brisk(&etcd)).await);
    let guard = one.lock("row").ttl(millis(8000)).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").wait(millis(30_000)).acquire());
    etcd.until_line("lock:row", 2);
    let leader = etcd.leader();
    etcd.kill(leader);
    etcd.leader();
    tokio::time::sleep(millis(9000)).await;
    assert!(guard.is_valid(), "the lease was renewed at the next leader");
    guard.release().await.unwrap();
    let next = within(NOISE * 4, waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
    etcd.restart(leader);
    etcd.until_healthy();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_members_that_return_keep_the_lock() {
    let mut etcd = Etcd::three();
    let (one, other) = (connected(brisk(&etcd)).await, connected(brisk(&etcd)).await);
    let guard = one.lock("row").ttl(millis(30_000)).acquire().await.unwrap();
    for member in 0..3 {
        etcd.kill(member);
    }
    for member in 0..3 {
        // Each waits for a majority.
        etcd.begin_restart(member);
    }
    etcd.until_healthy();
    assert!(guard.is_valid());
    let lock = other.lock("row").wait(millis(10_000));
    let waiter = tokio::spawn(lock.acquire());
    etcd.until_line("lock:row", 2);
    guard.release().await.unwrap();
    let next = within(millis(10_000), waiter).await.unwrap().unwrap();
    next.release().await.unwrap();
    one.shutdown().await;
    other.shutdown().await;
}

/// A frozen leader that has a successor answers, when it goes on, what was sent to it meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn frozen_leader_proves_no_lease() {
    let mut etcd = Etcd::three();
    let leader = etcd.leader();
    let path = Proxy::to(etcd.port(leader));
    let of_leader = Config::new(format!("etcd://127.0.0.1:{}", path.port()));
    let one = connected(patient(of_leader).command_timeout(millis(20_000))).await;
    let ports: Vec<_> = (0..3)
        .filter(|member| *member != leader)
        .map(|it| etcd.port(it))
        .collect();
    let others = format!("etcd://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let other = connected(patient(others)).await;

    let guard = one.lock("row").ttl(millis(4000)).acquire().await.unwrap();
    etcd.pause(leader);
    let waiter = tokio::spawn(other.lock("row").wait(millis(30_000)).acquire());
    // A renewal is sent meanwhile, and then nothing any more.
    tokio::time::sleep(millis(2900)).await;
    path.hold_requests();
    etcd.resume(leader);
    let next = within(millis(20_000), waiter).await.unwrap().unwrap();
    assert!(!guard.is_valid(), "there are two holders");
    next.release().await.unwrap();
    path.heal();
    drop(guard);
    one.shutdown().await;
    other.shutdown().await;
}
