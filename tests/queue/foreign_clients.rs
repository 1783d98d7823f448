//! Clients that do not use the queue, and locks that do not need it.

use std::time::Duration;

use super::fixture::{LONG, fair, managers, managers_with, waits};
use lock_test_support::manager::{connected, silent, until_renewed, use_once};
use lock_test_support::server::{Monitor, Server};
use lock_test_support::time::{millis, patient, soon};

/// Another client frees the lock by `DEL`, which publishes no message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_delete_serves_whole_queue() {
    let server = Server::start();
    let managers = managers(&server.url(), 3).await;
    server.query::<()>("SET lock:door other-client");
    let mut waiting = Vec::new();
    for (before, locks) in managers.iter().enumerate() {
        waiting.push(waits(locks, "door"));
        server.until_waiting("door", before + 1);
    }
    // By now the first waiter polls at its longest interval.
    tokio::time::sleep(millis(1000)).await;
    server.query::<()>("DEL lock:door");
    for waiter in waiting {
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// The first waiter gives up before the delete; the next one must learn that it is first now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_delete_is_noticed_after_first_waiter_left() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    server.query::<()>("SET lock:door other-client");
    let first = waits(&managers[0], "door");
    server.until_waiting("door", 1);
    let second = waits(&managers[1], "door");
    server.until_waiting("door", 2);
    first.abort();
    server.until_waiting("door", 1);
    server.query::<()>("DEL lock:door");
    let guard = soon(second).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// The queue has advanced since the next waiter last polled; it was behind others then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_delete_is_noticed_after_first_waiter_was_served() {
    let server = Server::start();
    let managers = managers_with(3, || fair(&server.url())).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let first = waits(&managers[1], "door");
    server.until_waiting("door", 1);
    let second = waits(&managers[2], "door");
    server.until_waiting("door", 2);
    holder.release().await.unwrap();
    let served = soon(first).await.unwrap().unwrap();
    server.query::<()>("DEL lock:door");
    let guard = soon(second).await.unwrap().unwrap();
    drop(served);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_without_expiry_is_busy_until_deleted() {
    let server = Server::start();
    let locks = connected(silent(patient(server.url()))).await;
    // A key of another type counts as held, too.
    for command in ["SET lock:door other-client", "HSET lock:door field value"] {
        server.query::<()>(command);
        let busy = locks.lock("door").wait(millis(2000)).acquire().await;
        assert!(busy.unwrap_err().is_busy(), "{command}");
        server.query::<()>("DEL lock:door");
    }
    use_once(&locks, "door").await;
}

/// Another client overwrites one key with another type: that lock is lost, and no other.
#[tokio::test]
async fn key_of_wrong_type_loses_only_its_lock() {
    let server = Server::start();
    let locks = connected(silent(server.url())).await;
    let mut guards = Vec::new();
    for n in 0..10 {
        let lock = locks.lock(format!("row:{n}")).ttl(millis(9000));
        guards.push(lock.acquire().await.unwrap());
    }
    server.query::<()>("DEL lock:row:4");
    server.query::<()>("HSET lock:row:4 field value");
    let stolen = guards.remove(4);
    tokio::join!(until_renewed(&guards), soon(stolen.lost()));
    drop((guards, stolen));
    locks.shutdown().await;
    server.query::<()>("DEL lock:row:4");
}

/// Returns the commands that concern locks, without those that a new connection sends.
fn about_locks(monitor: Monitor, server: &Server) -> Vec<String> {
    let mut commands = monitor.commands(server);
    commands.retain(|command| !command.starts_with(r#""SCRIPT""#) && command.contains("lock:"));
    commands
}

#[tokio::test]
async fn zero_wait_sends_one_set_without_queueing() {
    let server = Server::start();
    let locks = connected(silent(patient(server.url()))).await;
    let other = connected(silent(patient(server.url()))).await;
    let holder = other.lock("door").acquire().await.unwrap();
    // Connecting checks permissions.
    server.query::<()>("CONFIG RESETSTAT");
    let monitor = server.monitor();
    for _ in 0..20 {
        assert!(locks.lock("door").try_acquire().await.unwrap().is_none());
        let busy = locks.lock("door").wait(Duration::ZERO).acquire().await;
        assert!(busy.unwrap_err().is_busy());
    }
    let commands = about_locks(monitor, &server);
    assert_eq!(commands.len(), 40);
    for command in commands {
        let set = r#""SET" "lock:door""#;
        assert!(
            command.starts_with(set) && command.contains(r#" "NX" "PX" "#),
            "{command}"
        );
    }
    assert!(!server.exists("lock:::queue:door") && !server.exists("lock:::waiters:door"));
    holder.release().await.unwrap();
    assert_eq!(server.calls(&["zadd", "hset", "subscribe"]), 0);
}

#[tokio::test]
async fn free_lock_costs_two_commands() {
    let server = Server::start();
    let locks = connected(silent(patient(server.url()))).await;
    // Connecting checks permissions.
    server.query::<()>("CONFIG RESETSTAT");
    let monitor = server.monitor();
    for n in 0..20 {
        let lock = locks.lock(format!("row:{n}")).wait(LONG);
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let commands = about_locks(monitor, &server);
    assert_eq!(commands.len(), 40);
    for (n, pair) in commands.chunks(2).enumerate() {
        let set = format!(r#""SET" "lock:row:{n}""#);
        let taken = pair[0].starts_with(&set) && pair[0].ends_with(r#" "NX" "PX" "30000""#);
        let released = pair[1].starts_with(r#""EVALSHA""#);
        assert!(taken && released, "{pair:?}");
    }
    assert_eq!(server.calls(&["zadd", "hset", "subscribe", "publish"]), 0);
}
