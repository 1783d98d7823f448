//! Runtimes and threads as services have them: without I/O, blocked, short-lived, ending.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;

use lock_runtime::{Config, LockGuard, LockManager};
use tokio::runtime::{Builder, Runtime};

use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, silent, use_once};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, eventually, millis, patient, soon};
use lock_test_support::worker::{Worker, arguments, report_event};

/// More requests than a runtime makes before it gets its own connection.
const OFTEN: usize = 40;

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn workers(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap()
}

/// Acquires and releases locks `OFTEN` times.
async fn often(locks: &LockManager) {
    for n in 0..OFTEN {
        let lock = locks.lock(format!("often:{n}"));
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

/// Makes requests until the runtime has its own connection beside that of the I/O thread.
async fn settled(locks: &LockManager, server: &Server) {
    let connected = async {
        // The other connection belongs to the I/O thread.
        while server.clients().len() < 2 {
            often(locks).await;
        }
    };
    soon(connected).await;
    // Requests made while that connection was being opened went over the other one.
    often(locks).await;
}

/// A future that is set aside still owns the connection that it used.
#[tokio::test]
async fn runtime_gets_new_connection_beside_future_of_broken_one() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    settled(&locks, &server).await;
    let mut aside = Box::pin(locks.lock("aside").acquire());
    let polled = poll_fn(|context| Poll::Ready(aside.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    assert!(server.query::<u64>("CLIENT KILL TYPE normal SKIPME yes") > 0);
    settled(&locks, &server).await;
    drop(aside);
    locks.shutdown().await;
}

/// The guards of one task are dropped together, so their releases go out together.
#[tokio::test]
async fn releases_share_a_script_call() {
    let server = Server::start();
    let locks = connected(silent(patient(server.url()))).await;
    settled(&locks, &server).await;
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(locks.lock(format!("row:{n}")).acquire().await.unwrap());
    }
    let before = server.calls(&["evalsha", "eval"]);
    drop(guards);
    // Ends after the last release.
    locks.shutdown().await;
    let calls = server.calls(&["evalsha", "eval"]) - before;
    assert!(calls <= 20, "{calls} calls for 200 releases");
    assert_eq!(server.key_count(), 0);
}

/// One script acquires those that are free, and stops at the one that is not.
#[tokio::test]
async fn several_keys_share_a_script_call() {
    let server = Server::start();
    let (locks, other) = (
        connected(silent(patient(server.url()))).await,
        connected(silent(patient(server.url()))).await,
    );
    settled(&locks, &server).await;
    let keys: Vec<_> = (0..10).map(|n| format!("account:{n}")).collect();
    let before = server.calls(&["evalsha", "eval"]);
    let all = locks.lock_all(&keys).acquire().await.unwrap();
    let calls = server.calls(&["evalsha", "eval"]) - before;
    assert_eq!(calls, 1, "calls for {} keys", keys.len());
    assert!(all.keys().eq(&keys));
    for key in &keys {
        assert!(other.lock(key).try_acquire().await.unwrap().is_none());
    }
    all.release().await.unwrap();
    let held = other.lock(&keys[4]).acquire().await.unwrap();
    let before = server.calls(&["evalsha", "eval"]);
    let busy = locks.lock_all(&keys).try_acquire().await.unwrap();
    assert!(busy.is_none());
    let calls = server.calls(&["evalsha", "eval"]) - before;
    assert_eq!(calls, 2, "one that acquires, one that releases");
    assert_eq!(server.key_count(), 1);
    drop(held);
    locks.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn runtime_drives_its_own_tls_connection() {
    let certificates = Certificates::issue();
    let server = Server::with_tls(&certificates);
    let url = format!("rediss://localhost:{}", server.port());
    let config = Config::new(url).root_certificate(certificates.authority.clone());
    let locks = connected(config).await;
    settled(&locks, &server).await;
    locks.shutdown().await;
}

/// The threads that have panicked.
static PANICKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn runtime_without_io_is_served_without_panicking() {
    if let Some(arguments) = arguments() {
        std::panic::set_hook(Box::new(|panic| {
            let thread = thread::current().name().unwrap_or_default().to_owned();
            PANICKED.lock().unwrap().push(thread.clone());
            eprintln!("{thread}: {panic}");
        }));
        let runtimes = [
            Builder::new_current_thread().build(),
            Builder::new_current_thread().enable_time().build(),
            Builder::new_multi_thread().worker_threads(2).build(),
        ];
        for runtime in runtimes {
            let url = arguments[0].clone();
            runtime.unwrap().block_on(async {
                let locks = connected(url).await;
                for _ in 0..3 {
                    often(&locks).await;
                }
                locks.shutdown().await;
            });
        }
        let panicked = PANICKED.lock().unwrap();
        // The library probes a runtime for I/O once, on its own thread.
        assert!(panicked.iter().all(|thread| thread == "lock-io"));
        assert!(panicked.len() <= 1, "{panicked:?}");
        return report_event("done");
    }
    let server = Server::start();
    let mut worker = Worker::start(
        runtime_without_io_is_served_without_panicking,
        &[&server.url()],
    );
    worker.expect("done");
    worker.succeeds();
}

/// Asserts that the lock is released while the task that has dropped its guard blocks its thread. With
/// `others`, another request is under way, and the driver of the connection gives way once before it writes.
fn is_released_while_blocked(
    runtime: &Runtime,
    server: &Server,
    locks: &LockManager,
    others: bool,
) {
    runtime.block_on(async {
        settled(locks, server).await;
    });
    let (dropped, reported) = channel();
    let (end, ended) = channel::<()>();
    let locks = locks.clone();
    let blocks = async move {
        let guard = locks.lock("blocks").acquire().await.unwrap();
        let other = locks.lock("other");
        let mut other = std::pin::pin!(other.try_acquire());
        if others {
            poll_fn(|context| Poll::Ready(other.as_mut().poll(context).is_ready())).await;
        }
        drop(guard);
        dropped.send(()).unwrap();
        if others {
            tokio::task::yield_now().await;
        }
        let _ = ended.recv();
    };
    thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(async { tokio::spawn(blocks).await.unwrap() }));
        reported.recv().unwrap();
        server.until_gone("lock:blocks");
        drop(end);
    });
}

#[test]
fn blocked_thread_does_not_delay_release() {
    for (runtime, others) in [
        (current_thread(), false),
        (current_thread(), true),
        (workers(1), false),
        (workers(1), true),
        (workers(2), false),
        (workers(4), false),
    ] {
        let server = Server::start();
        let locks = runtime
            .block_on(LockManager::connect(patient(server.url())))
            .unwrap();
        is_released_while_blocked(&runtime, &server, &locks, others);
        runtime.block_on(locks.shutdown());
    }
}

#[test]
fn blocked_thread_does_not_fail_try_acquire_of_other_lock() {
    for threads in [2, 4] {
        let (runtime, server) = (workers(threads), Server::start());
        runtime.block_on(async {
            // A request that the blocked thread would have to drive fails the test.
            let config = Config::new(server.url()).command_timeout(2 * PATIENCE);
            let locks = connected(config).await;
            settled(&locks, &server).await;
            let (end, ended) = channel::<()>();
            let blocks = locks.clone();
            let blocker = tokio::spawn(async move {
                drop(blocks.lock("blocks").acquire().await.unwrap());
                let _ = ended.recv();
            });
            for _ in 0..100 {
                let other = locks.clone();
                let used = tokio::spawn(async move { use_once(&other, "other").await });
                soon(used).await.unwrap();
            }
            drop(end);
            blocker.await.unwrap();
            locks.shutdown().await;
        });
    }
}

/// The replies have arrived when the thread continues, though the command timeout has passed.
#[test]
fn requests_succeed_after_thread_was_blocked_past_timeout() {
    let (runtime, server) = (current_thread(), Server::start());
    runtime.block_on(async {
        let config = Config::new(server.url()).command_timeout(millis(400));
        let locks = connected(config).await;
        settled(&locks, &server).await;
        let blocks_until = async |is_held| {
            let done = || server.exists("lock:free") == is_held;
            eventually("the server has replied", done);
            thread::sleep(millis(800));
        };
        let try_it = locks.lock("free").try_acquire();
        let (tried, ()) = tokio::join!(try_it, blocks_until(true));
        let guard = tried.unwrap().expect("it is free");
        let (released, ()) = tokio::join!(guard.release(), blocks_until(false));
        released.unwrap();
        locks.shutdown().await;
    });
}

#[test]
fn guard_dropped_before_block_on_returns_is_released_at_once() {
    let (runtime, server) = (current_thread(), Server::start());
    let connected = runtime.block_on(LockManager::connect(patient(server.url())));
    let locks = connected.unwrap();
    runtime.block_on(async {
        settled(&locks, &server).await;
        drop(locks.lock("last").acquire().await.unwrap());
    });
    // The runtime still exists, but nothing drives it.
    server.until_gone("lock:last");
    current_thread().block_on(locks.shutdown());
}

thread_local! {
    static KEPT: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
}

#[test]
fn guard_in_thread_local_is_released_at_thread_exit() {
    if let Some(arguments) = arguments() {
        let runtime = current_thread();
        let locks = runtime.block_on(LockManager::connect(arguments[0].as_str()));
        let locks = locks.unwrap();
        let keep = |guard| KEPT.with(|kept| *kept.borrow_mut() = Some(guard));
        // On a thread that has a runtime, on one that has had one, and on one that never had one.
        let (lock, waits) = (locks.lock("kept"), locks.lock("kept"));
        let taken = thread::spawn(move || {
            // Covers destruction before and after tokio's thread-locals.
            KEPT.with(|_| {});
            let runtime = current_thread();
            keep(runtime.block_on(lock.acquire()).unwrap());
        });
        taken.join().unwrap();
        let guard = runtime.block_on(waits.acquire()).unwrap();
        thread::spawn(move || keep(guard)).join().unwrap();
        let lock = locks.lock("kept");
        let taken = thread::spawn(move || {
            let runtime = current_thread();
            let guard = runtime.block_on(lock.acquire()).unwrap();
            keep(guard);
        });
        taken.join().unwrap();
        runtime.block_on(async {
            use_once(&locks, "kept").await;
            locks.shutdown().await;
        });
        return report_event("done");
    }
    let server = Server::start();
    for url in [&*server.url(), "memory://"] {
        let mut worker = Worker::start(guard_in_thread_local_is_released_at_thread_exit, &[url]);
        worker.expect("done");
        worker.succeeds();
    }
}

#[test]
fn malformed_grant_messages_are_ignored() {
    let (runtime, server) = (workers(2), Server::start());
    let locks = runtime
        .block_on(async {
            let config = Config::new(server.url()).prefix("é:");
            LockManager::connect(config).await
        })
        .unwrap();
    let guard = runtime.block_on(locks.lock("taken").acquire()).unwrap();
    let waits = locks.lock("taken").wait(PATIENCE);
    let waits = runtime.spawn(async move { waits.acquire().await?.release().await });
    // A process uses the server queue when other processes wait beside it.
    let other = runtime.block_on(async {
        let config = Config::new(server.url()).prefix("é:");
        connected(config).await
    });
    let other_waits = other.lock("taken").wait(PATIENCE);
    let other_waits = runtime.spawn(async move { other_waits.acquire().await?.release().await });
    // Then they are subscribed to stay: a process that connects subscribes for a moment, too.
    eventually("both processes wait", || {
        server.query::<usize>("ZCARD é:::queue:taken") == 2
    });
    let channels: Vec<String> = server.query("PUBSUB CHANNELS *grants*");
    assert_eq!(channels.len(), 2);
    let token = "0123456789abcdef0123456789abcdef";
    for channel in &channels {
        for name in ["x", "\u{ea}:x", "xé", "", "é", "grant", "é:", "é:x"] {
            for number in ["1", "18446744073709551615"] {
                let message = format!("grant {token} {number} {number} {name}");
                let heard: usize = server.ask(&["PUBLISH", channel, &message]).unwrap();
                assert!(heard > 0, "the process is still subscribed");
            }
        }
    }
    runtime.block_on(async {
        guard.release().await.unwrap();
        waits.await.unwrap().unwrap();
        other_waits.await.unwrap().unwrap();
        let shutdown = async {
            locks.shutdown().await;
            other.shutdown().await;
        };
        soon(shutdown).await;
    });
}
