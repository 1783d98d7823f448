//! A process that is killed costs others no more than its leases, and its places in queues.

use std::future::pending;
use std::time::Duration;

use lock_runtime::LockManager;

use super::fixture::{Fixture, config_of};
use lock_test_support::manager::connected;
use lock_test_support::time::{NOISE, millis, patient, within};
use lock_test_support::worker::{Worker, arguments, block_on, report_event};

pub const TTL: Duration = millis(2000);
/// The process that is killed. In the test itself it does nothing.
#[test]
fn process() {
    let Some(arguments) = arguments() else { return };
    let [key, urls @ ..] = &arguments[..] else {
        return;
    };
    block_on(async {
        let locks = connected(patient(config_of(urls.to_vec()))).await;
        let lock = locks.lock(&**key).ttl(TTL);
        match lock.try_acquire().await.unwrap() {
            Some(_guard) => {
                report_event("holds");
                pending().await
            }
            None => {
                let wait = tokio::spawn(locks.lock(&**key).ttl(TTL).acquire());
                // What is sent after it is answered.
                use_others(&locks, key).await;
                report_event("waits");
                drop(wait.await);
            }
        }
    });
}

pub async fn use_others(locks: &LockManager, key: &str) {
    for n in 0..3 {
        let other = locks.lock(format!("{key}:other:{n}")).acquire().await;
        other.unwrap().release().await.unwrap();
    }
}

/// Starts another process, which acquires the lock or waits for it.
pub async fn start(fixture: &Fixture, key: &str, event: &'static str) -> Worker {
    let arguments = [vec![key.to_owned()], fixture.urls()].concat();
    let start = move || {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let worker = Worker::start(process, &arguments);
        worker.expect(event);
        worker
    };
    tokio::task::spawn_blocking(start).await.unwrap()
}

pub async fn crashed_holder_is_replaced_after_its_ttl(fixture: Fixture) {
    if !fixture.has_processes() {
        return;
    }
    let row = fixture.key("row");
    let mut holder = start(&fixture, &row, "holds").await;
    let next = tokio::spawn(fixture.locks().lock(&*row).acquire());
    holder.kill();
    let next = within(TTL + fixture.outlasts() + NOISE, next).await;
    next.unwrap().unwrap().release().await.unwrap();
}

pub async fn crashed_waiter_costs_others_little(fixture: Fixture) {
    if !fixture.has_processes() {
        return;
    }
    let row = fixture.key("row");
    let holder = fixture.locks().lock(&*row).acquire().await.unwrap();
    let mut first = start(&fixture, &row, "waits").await;
    let second = tokio::spawn(fixture.other().lock(&*row).acquire());
    use_others(fixture.other(), &row).await;
    first.kill();
    holder.release().await.unwrap();
    let second = within(fixture.crash_costs(TTL) + NOISE, second).await;
    second.unwrap().unwrap().release().await.unwrap();
}
