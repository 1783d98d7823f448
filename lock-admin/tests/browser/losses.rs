//! What the page says of losses in other processes, and of processes that are silent.

use crate::request::until;
use lock_admin::Admin;
use lock_runtime::{LockManager, Report};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, patient};
use std::time::Duration;
use tokio::time::timeout;

async fn connect(server: &Server) -> LockManager {
    connected(patient(server.url()).report(Report::Live)).await
}

/// Loses a lock, and waits until the report tells it.
async fn lose(locks: &LockManager) {
    let lock = locks.lock("order:42").max_hold(Duration::from_millis(10));
    lock.acquire().await.unwrap().lost().await;
    let reported = async {
        loop {
            locks.ask_for_reports().await.unwrap();
            let processes = locks.processes().await.unwrap();
            let own = processes.iter().find(|it| it.id() == locks.process_id());
            if own.is_some_and(|it| it.lost() == Some(1)) {
                return;
            }
        }
    };
    timeout(PATIENCE, reported).await.expect("it is reported");
}

fn tells_the_loss(page: &str) -> bool {
    // A page that has seen the hold names it.
    let mut titles = ["A lock was lost", "order:42 was lost"].into_iter();
    titles.any(|title| page.contains(title)) && page.contains("<dt>Lost so far</dt><dd>1</dd>")
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_is_told_of_a_process_that_is_seen_first_afterwards_and_is_gone_then() {
    let server = Server::start();
    let here = connect(&server).await;
    let first = Admin::new(here.clone());
    until(&first, |page| page.contains("0</dd>")).await;
    let other = connect(&server).await;
    lose(&other).await;
    until(&first, tells_the_loss).await;
    // Also by a page that nobody has looked at before.
    let second = Admin::new(here.clone());
    until(&second, tells_the_loss).await;
    other.shutdown().await;
    for admin in [first, second] {
        let is_gone = |page: &str| !page.contains("<dt>Processes</dt><dd>1</dd>");
        let page = until(&admin, is_gone).await;
        assert!(tells_the_loss(&page), "{page}");
        assert!(!page.contains("none was lost"), "{page}");
    }
}

/// Its lease is not renewed.
#[tokio::test(flavor = "multi_thread")]
async fn silent_holder_is_named_at_once() {
    let server = Server::start();
    let locks = connect(&server).await;
    let admin = Admin::new(locks.clone());
    let lock = locks.lock("order:42").ttl(Duration::from_secs(120));
    let guard = lock.acquire().await.unwrap();
    let page = until(&admin, |page| page.contains("order:42</bdi>")).await;
    assert!(!page.contains("No word"), "{page}");
    server.query::<()>("PEXPIRE lock:order:42 50000");
    let page = until(&admin, |page| {
        page.contains("It holds order:42, and is stopped")
    })
    .await;
    assert!(page.contains(">silent</small>"), "{page}");
    guard.release().await.unwrap();
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lock_that_two_may_hold_comes_first() {
    let server = Server::start();
    let (first, second) = (connect(&server).await, connect(&server).await);
    let lock = |of: &LockManager| of.lock("order:42").ttl(Duration::from_secs(300));
    let _lost = lock(&first).acquire().await.unwrap();
    server.query::<()>("FLUSHALL");
    let guard = lock(&second).acquire().await.unwrap();
    let admin = Admin::new(second.clone());
    let page = until(&admin, |page| page.contains("Two may hold order:42")).await;
    assert!(page.contains("reports to hold it, too"), "{page}");
    guard.release().await.unwrap();
}
