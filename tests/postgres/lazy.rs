//! A lock that is released lazily stays with its process, without a request, until another process waits for
//! it.

use lock_runtime::{Lock, LockManager, ReleaseMode};

use lock_test_support::manager::connected;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{patient, soon};
use lock_test_support::worker::{Worker, arguments, block_on, next_order, report_event};

fn lazy(locks: &LockManager, key: &str) -> Lock {
    locks.lock(key).release_mode(ReleaseMode::Lazy)
}

async fn call(lock: Lock) {
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// Calls until the lock is kept, which it is once the process hears recalls.
async fn until_kept(server: &Postgres, locks: &LockManager, key: &str) {
    let kept = async {
        while !server.is_held(key) {
            call(lazy(locks, key)).await;
        }
    };
    soon(kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_call_sends_no_statement() {
    let server = Postgres::start();
    let proxy = Proxy::recording(server.port());
    let locks = connected(patient(url_at(proxy.port()))).await;
    until_kept(&server, &locks, "row").await;
    let before = proxy.sent("lock:row");
    for _ in 0..100 {
        call(lazy(&locks, "row")).await;
    }
    assert_eq!(proxy.sent("lock:row"), before);
    locks.shutdown().await;
    assert!(!server.is_held("row"), "the shutdown releases it");
}

/// It may have missed a recall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_is_given_up_when_its_process_no_longer_listens() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    until_kept(&server, &locks, "row").await;
    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE query LIKE '%LISTEN%' AND pid <> pg_backend_pid()",
    );
    server.until_gone("row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_that_is_not_lazy_is_not_recalled() {
    let server = Postgres::start();
    let proxy = Proxy::recording(server.port());
    let locks = connected(patient(url_at(proxy.port()))).await;
    let other = connected(patient(url_at(proxy.port()))).await;
    for _ in 0..5 {
        let guard = locks.lock("row").acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock("row").acquire());
        server.until_waiting("row", 1);
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(proxy.sent(" recall "), 0);
    until_kept(&server, &locks, "row").await;
    soon(call(other.lock("row"))).await;
    assert!(proxy.sent(" recall ") > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_is_released_with_its_guard_behind_a_pooler() {
    let server = Postgres::start();
    let pooler = PgBouncer::to(server.port());
    let locks = connected(patient(pooler.url())).await;
    for _ in 0..20 {
        call(lazy(&locks, "row")).await;
        assert!(!server.is_held("row"));
    }
}

/// The process that is stopped or killed. In the test itself it does nothing.
#[test]
fn keeper() {
    let Some(arguments) = arguments() else { return };
    block_on(async {
        let locks = connected(patient(&*arguments[0])).await;
        loop {
            call(lazy(&locks, "row")).await;
            report_event("called");
            next_order();
        }
    });
}

/// The lease ends as that of any dead holder, whether or not its process hears a recall.
async fn waiter_is_served_after_the_lease_of(end: impl FnOnce(&mut Worker)) {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let mut keeper = Worker::start(keeper, &[&server.url()]);
    keeper.expect("called");
    while !server.is_held("row") {
        keeper.order("call");
        keeper.expect("called");
    }
    end(&mut keeper);
    assert!(server.is_held("row"));
    let waiter = tokio::spawn(locks.lock("row").acquire());
    server.until_waiting("row", 1);
    server.end_lease("row");
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_keeper_costs_others_its_lease() {
    waiter_is_served_after_the_lease_of(Worker::kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_keeper_costs_others_its_lease() {
    waiter_is_served_after_the_lease_of(|keeper| keeper.pause()).await;
}
