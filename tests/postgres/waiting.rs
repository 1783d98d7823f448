//! Waiters are served in order of arrival.

use super::fixture::Fixture;
use lock_test_support::manager::connected;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{millis, patient, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_several_processes_are_served_in_order_of_arrival() {
    let fixture = Fixture::start().await;
    let guard = fixture.locks().lock("row").acquire().await.unwrap();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut others = Vec::new();
    for n in 0..5_usize {
        let other = connected(patient(fixture.url())).await;
        let waiter = other.lock("row").acquire();
        let served = served.clone();
        tokio::spawn(async move {
            let guard = waiter.await.unwrap();
            served.send(n).unwrap();
            guard.release().await.unwrap();
        });
        fixture.until_waiting("row", n + 1);
        others.push(other);
    }
    guard.release().await.unwrap();
    for n in 0..5 {
        assert_eq!(soon(order.recv()).await, Some(n));
    }
}

/// A waiter that gives up, or whose connection breaks, does not hold up those behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_waiter_is_passed_over() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let holder = connected(patient(server.url())).await;
    let dead = connected(patient(url_at(proxy.port()))).await;
    let alive = connected(patient(server.url())).await;
    let guard = holder.lock("row").acquire().await.unwrap();
    let first = tokio::spawn(dead.lock("row").acquire());
    server.until_waiting("row", 1);
    let second = tokio::spawn(alive.lock("row").acquire());
    server.until_waiting("row", 2);
    proxy.black_hole();
    let given_up = tokio::spawn(alive.lock("other").wait(millis(100)).acquire());
    drop(given_up.await);
    guard.release().await.unwrap();
    // It counts as alive for a while, and a grant that is not renewed lasts for two seconds.
    let guard = soon(second).await.unwrap().unwrap();
    guard.release().await.unwrap();
    first.abort();
    // What it has sent arrives late, and it cancels that.
    proxy.heal();
    soon(dead.shutdown()).await;
}
