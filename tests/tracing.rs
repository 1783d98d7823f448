//! What the feature `tracing` tells: a span around each hold, and what went wrong.

mod support;

use std::io::Write;
use std::sync::LazyLock;
use std::time::Duration;

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::sync::watch;
use tracing_subscriber::fmt::format::FmtSpan;

use support::server::Server;
use support::time::within;

const PATIENCE: Duration = Duration::from_secs(10);

/// All that was told, by any thread, in any test: each looks for its own key.
static TOLD: LazyLock<watch::Sender<String>> = LazyLock::new(|| {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(|| Told)
        .init();
    watch::Sender::default()
});

struct Told;

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        TOLD.send_modify(|told| told.push_str(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The line that has all of these words, as soon as it is there.
async fn told(words: &[&str]) -> String {
    let find = |told: &str| {
        let mut lines = told.lines();
        let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
        line.map(str::to_owned)
    };
    let mut told = TOLD.subscribe();
    let told = within(PATIENCE, told.wait_for(|told| find(told).is_some())).await;
    find(&told.unwrap()).unwrap()
}

#[distributed_lock(key = "order:<id>", manager = locks)]
async fn ship(locks: &LockManager, id: u64) -> Result<(), LockError> {
    tracing::info!("shipping {id}");
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn a_span_is_around_each_hold() {
    LazyLock::force(&TOLD);
    let locks = LockManager::connect("memory://").await.unwrap();
    ship(&locks, 42).await.unwrap();
    let body = told(&["shipping 42"]).await;
    assert!(body.contains("distributed_lock{"), "{body}");
    assert!(body.contains(r#"template="order:<id>""#), "{body}");
    assert!(body.contains(r#"key="order:42""#), "{body}");
    assert!(body.contains("waited="), "{body}");
    told(&["close", "distributed_lock{", "order:42", "held="]).await;
}

#[tokio::test]
async fn a_lost_lease_is_a_warning() {
    LazyLock::force(&TOLD);
    let locks = LockManager::connect("memory://").await.unwrap();
    let lock = locks.lock("row:1").ttl(Duration::from_millis(20));
    let guard = lock.renew(false).acquire().await.unwrap();
    guard.lost().await;
    told(&["WARN", "lock lost", r#"key="row:1""#]).await;
}

#[tokio::test]
async fn a_failed_renewal_is_a_warning() {
    LazyLock::force(&TOLD);
    let mut server = Server::start();
    let locks = LockManager::connect(server.url()).await.unwrap();
    let lock = locks.lock("row:2").ttl(Duration::from_millis(300));
    let _guard = lock.acquire().await.unwrap();
    server.pause();
    told(&["WARN", "not renewed", r#"key="row:2""#]).await;
    server.resume();
}

#[tokio::test]
async fn a_release_that_found_the_lock_gone_is_a_warning() {
    LazyLock::force(&TOLD);
    let server = Server::start();
    let locks = LockManager::connect(server.url()).await.unwrap();
    let guard = locks.lock("row:3").acquire().await.unwrap();
    server.query::<()>("DEL lock:row:3");
    drop(guard);
    told(&["WARN", "gone", r#"key="row:3""#]).await;
}

#[tokio::test]
async fn an_unsafe_server_is_a_warning() {
    LazyLock::force(&TOLD);
    let server = Server::start();
    let _locks = LockManager::connect(server.url()).await.unwrap();
    let address = format!("redis://127.0.0.1:{}", server.port());
    told(&["WARN", "lock server", &address, "`appendonly` is `no`"]).await;
}
