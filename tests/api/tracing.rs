//! The feature `tracing`: a span around each hold, and events for failures.

use std::fmt::Debug;
use std::io::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Instrument, Level, Subscriber};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use lock_test_support::manager::until_renewed;
use lock_test_support::sentinel::Sentinels;
use lock_test_support::server::Server;
use lock_test_support::time::soon;

/// All events of all threads and tests: each test searches for its own key.
static LOG: LazyLock<watch::Sender<String>> = LazyLock::new(|| {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(|| Told)
        .finish()
        .with(Panics)
        .init();
    watch::Sender::default()
});

struct Told;

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.send_modify(|log| log.push_str(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Panics on events and spans of certain keys.
struct Panics;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut key = Key::default();
        event.record(&mut key);
        assert!(key.0 != "panics:event", "the test requires this panic");
    }

    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut key = Key::default();
        span.record(&mut key);
        assert!(key.0 != "panics:span", "the test requires this panic");
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(key);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let panics = context.span(&id).is_some_and(|span| {
            let extensions = span.extensions();
            let key = extensions.get::<Key>();
            key.is_some_and(|key| key.0 == "panics:close")
        });
        assert!(!panics, "the test requires this panic");
    }
}

#[derive(Default)]
struct Key(String);

impl Visit for Key {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "key" {
            self.0 = value.to_owned();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Waits for a line that contains all of these words, and returns it.
async fn logged(words: &[&str]) -> String {
    let find = |log: &str| {
        let mut lines = log.lines();
        let line = lines.find(|line| words.iter().all(|word| line.contains(word)));
        line.map(str::to_owned)
    };
    let mut log = LOG.subscribe();
    let log = soon(log.wait_for(|log| find(log).is_some())).await;
    let line = find(&log.unwrap()).unwrap();
    // The target is the crate, whatever its modules are called.
    assert!(!line.contains("lock_runtime::"), "{line}");
    line
}

#[distributed_lock(key = "order:<id>", manager = locks)]
async fn ship(locks: &LockManager, id: u64) -> Result<(), LockError> {
    tracing::info!("shipping {id}");
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn each_hold_has_a_span() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    ship(&locks, 42).await.unwrap();
    let body = logged(&["shipping 42"]).await;
    assert!(body.contains("distributed_lock{"), "{body}");
    assert!(body.contains(r#"template="order:<id>""#), "{body}");
    assert!(body.contains(r#"key="order:42""#), "{body}");
    assert!(body.contains("waited="), "{body}");
    logged(&["close", "distributed_lock{", "order:42", "held="]).await;
}

/// The trace of a slow request shows where its time went, and what became of it.
#[tokio::test]
async fn a_wait_has_a_span_in_that_of_its_caller() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    let taken = locks.lock("waited:1").acquire().await.unwrap();
    let lock = locks.lock("waited:1").template("waited:<n>").label("seven");
    let call = lock.wait(Duration::from_millis(20)).acquire();
    let call = call.instrument(tracing::info_span!("request", id = 7));
    assert!(call.await.unwrap_err().is_busy());
    let span = [
        "close",
        "request{id=7}",
        "distributed_lock.acquire{",
        r#"template="waited:<n>""#,
        r#"key="waited:1""#,
        r#"label="seven""#,
    ];
    logged(&span).await;
    let busy = [
        "DEBUG",
        "request{id=7}",
        "lock not acquired",
        r#"outcome="busy""#,
    ];
    let busy = logged(&busy).await;
    assert!(
        busy.contains("waited:1") && busy.contains("waited="),
        "{busy}"
    );
    drop(taken);
}

/// A free lock needs no wait, and has no span for it.
#[tokio::test]
async fn a_free_lock_has_no_span_of_a_wait() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    drop(locks.lock("free:1").acquire().await.unwrap());
    logged(&["close", "distributed_lock{", "free:1"]).await;
    let log = LOG.borrow().clone();
    let waits = |line: &&str| line.contains("distributed_lock.acquire") && line.contains("free:1");
    assert_eq!(log.lines().find(waits), None);
}

#[tokio::test]
async fn lost_lease_is_logged_as_warning() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    let lock = locks.lock("row:1").ttl(Duration::from_millis(20));
    let guard = lock.renew(false).acquire().await.unwrap();
    guard.lost().await;
    logged(&["WARN", "lock lost", r#"key="row:1""#]).await;
}

#[distributed_lock(key = "slow:<id>", ttl = "20ms", renew = false, manager = locks)]
async fn too_slow(locks: &LockManager, id: u64) -> Result<(), LockError> {
    std::future::pending().await
}

#[tokio::test]
async fn loss_is_logged_in_span_of_its_hold() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    assert!(too_slow(&locks, 1).await.unwrap_err().is_lost());
    let line = logged(&["WARN", "lock lost", r#"key="slow:1""#]).await;
    assert!(line.contains("distributed_lock{"), "{line}");
    assert!(line.contains(r#"template="slow:<id>""#), "{line}");
}

/// A thousand locks fail repeatedly.
#[tokio::test]
async fn outage_is_logged_in_few_lines() {
    LazyLock::force(&LOG);
    let ttl = Duration::from_secs(9);
    let mut server = Server::start();
    let port = server.port().to_string();
    let locks = LockManager::connect(server.url()).await.unwrap();
    let mut guards = Vec::new();
    for n in 0..1000 {
        let lock = locks.lock(format!("flood:{n}")).ttl(ttl);
        guards.push(lock.acquire().await.unwrap());
    }
    let start = Instant::now();
    server.pause();
    // By then each renewal has failed.
    while guards.iter().any(|guard| guard.remaining() > ttl / 2) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.resume();
    let warning = logged(&["WARN", "requests to the lock server fail", &port]).await;
    assert!(warning.contains("renewals="), "{warning}");
    logged(&["INFO", "renews leases again", &port]).await;
    let periods = 2 + start.elapsed().as_secs() as usize / 5;
    drop(guards);
    locks.shutdown().await;
    let log = LOG.borrow().clone();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(&port) || line.contains("flood:"))
        .filter(|line| {
            // The failures of each lock are for who asks for them.
            !["lock server:", "lock lost", "close", " DEBUG "]
                .iter()
                .any(|word| line.contains(word))
        })
        .collect();
    // One warning and its end, for the requests and for the connection.
    assert!(
        lines.len() <= 4 * periods,
        "{} lines: {:?}",
        lines.len(),
        &lines[..10]
    );
}

#[tokio::test]
async fn lost_and_restored_connection_log_one_line_each() {
    LazyLock::force(&LOG);
    let mut server = Server::start();
    let port = server.port().to_string();
    let locks = LockManager::connect(server.url()).await.unwrap();
    // An idle connection is restored only when it is needed.
    let _guard = locks
        .lock("idle")
        .ttl(Duration::from_secs(6))
        .acquire()
        .await;
    server.kill();
    logged(&["WARN", "connection lost", "requests", &port]).await;
    server.restart();
    logged(&["INFO", "connection restored", "requests", &port]).await;
}

#[tokio::test]
async fn failover_is_logged() {
    LazyLock::force(&LOG);
    let sentinels = Sentinels::start();
    let _locks = LockManager::connect(sentinels.url()).await.unwrap();
    sentinels.failover();
    logged(&["INFO", "failover followed", "redis-sentinel://"]).await;
}

/// Subscribers run on the I/O thread, which renews all leases.
#[tokio::test]
async fn panicking_subscriber_loses_no_lease() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    let ttl = Duration::from_secs(6);
    let kept = locks.lock("kept").ttl(ttl).acquire().await.unwrap();
    let lost = locks.lock("panics:event").ttl(ttl / 100).renew(false);
    let lost = lost.acquire().await.unwrap();
    soon(lost.lost()).await;
    until_renewed([&kept]).await;
}

#[tokio::test]
async fn subscriber_panicking_on_span_leaves_no_lock() {
    LazyLock::force(&LOG);
    let locks = LockManager::connect("memory://").await.unwrap();
    for key in ["panics:span", "panics:close"] {
        drop(locks.lock(key).acquire().await.unwrap());
        let again = locks.lock(key).try_acquire().await.unwrap();
        assert!(again.is_some(), "`{key}` was released");
    }
}

#[tokio::test]
async fn release_of_lost_lock_is_logged_as_warning() {
    LazyLock::force(&LOG);
    let server = Server::start();
    let locks = LockManager::connect(server.url()).await.unwrap();
    let guard = locks.lock("row:3").acquire().await.unwrap();
    server.query::<()>("DEL lock:row:3");
    drop(guard);
    logged(&["WARN", "no longer held", r#"key="row:3""#]).await;
}

#[tokio::test]
async fn unsafe_server_is_logged_as_warning() {
    LazyLock::force(&LOG);
    let server = Server::start();
    let _locks = LockManager::connect(server.url()).await.unwrap();
    let address = format!("redis://127.0.0.1:{}", server.port());
    logged(&["WARN", "lock server", &address, "`appendonly` is `no`"]).await;
}
