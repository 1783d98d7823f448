//! Clients that know no queue, and locks that need none.

use std::time::Duration;

use super::crew::{LONG, fair, managers, managers_with, waiter, waits};
use crate::support::manager::connected;
use crate::support::server::{Monitor, Server};
use crate::support::time::{NOISE, millis, within};

const SOON: Duration = Duration::from_secs(1);

/// A client in another language frees the lock by `DEL`: nothing is published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_delete_wakes_the_queue() {
    let server = Server::start();
    let managers = managers(&server.url(), 3).await;
    server.query::<()>("SET lock:door somebody");
    let mut waiting = Vec::new();
    for (before, locks) in managers.iter().enumerate() {
        waiting.push(waits(locks, "door"));
        server.until_waiting("door", before + 1);
    }
    // By now the first asks as seldom as it ever will.
    tokio::time::sleep(millis(2500)).await;
    server.query::<()>("DEL lock:door");
    for waiter in waiting {
        let guard = within(SOON, waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// The first in the queue has given up before: the next one is the first now, and must know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_delete_wakes_the_queue_when_its_first_has_left() {
    let server = Server::start();
    let managers = managers(&server.url(), 2).await;
    server.query::<()>("SET lock:door somebody");
    let first = waits(&managers[0], "door");
    server.until_waiting("door", 1);
    let second = waits(&managers[1], "door");
    server.until_waiting("door", 2);
    tokio::time::sleep(millis(200)).await;
    first.abort();
    server.until_waiting("door", 1);
    server.query::<()>("DEL lock:door");
    let guard = within(SOON, second).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// The queue has moved on since the next one last asked: it was behind others then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_delete_wakes_the_queue_when_its_first_has_been_served() {
    let server = Server::start();
    let managers = managers_with(3, || fair(&server.url())).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let first = waits(&managers[1], "door");
    server.until_waiting("door", 1);
    let second = waits(&managers[2], "door");
    server.until_waiting("door", 2);
    holder.release().await.unwrap();
    let served = within(NOISE, first).await.unwrap().unwrap();
    server.query::<()>("DEL lock:door");
    let guard = within(SOON, second).await.unwrap().unwrap();
    drop(served);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_never_expires_is_waited_for() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    server.query::<()>("SET lock:door somebody");
    let busy = locks.lock("door").wait(millis(300)).acquire().await;
    assert!(busy.unwrap_err().is_busy());
    server.query::<()>("DEL lock:door");
    server.query::<()>("HSET lock:door field value");
    let busy = locks.lock("door").wait(millis(300)).acquire().await;
    assert!(
        busy.unwrap_err().is_busy(),
        "a key of another kind is somebody's"
    );
    server.query::<()>("DEL lock:door");
    within(NOISE, locks.lock("door").acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// Somebody overwrites one lock by something else: it's lost, and no other is.
#[tokio::test]
async fn a_key_of_another_kind_takes_no_other_lock_along() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let mut guards = Vec::new();
    for n in 0..10 {
        let lock = locks.lock(format!("row:{n}")).ttl(millis(1000));
        guards.push(lock.acquire().await.unwrap());
    }
    server.query::<()>("DEL lock:row:4");
    server.query::<()>("HSET lock:row:4 field value");
    let lost = within(millis(1000) + NOISE, guards[4].lost()).await;
    assert!(lost.is_lost(), "{lost}");
    tokio::time::sleep(millis(1500)).await;
    let valid: Vec<_> = guards.iter().map(|guard| guard.is_valid()).collect();
    assert_eq!(
        valid.iter().filter(|valid| !**valid).count(),
        1,
        "{valid:?}"
    );
    drop(guards);
    locks.shutdown().await;
    server.query::<()>("DEL lock:row:4");
}

/// What is asked about locks, beside what a new connection begins with.
fn about_locks(monitor: Monitor, server: &Server) -> Vec<String> {
    let mut commands = monitor.commands(server);
    commands.retain(|command| !command.starts_with(r#""SCRIPT""#) && command.contains("lock:"));
    commands
}

#[tokio::test]
async fn without_waiting_nobody_queues() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    let other = connected(server.url()).await;
    let holder = other.lock("door").acquire().await.unwrap();
    // Connecting tries what is permitted.
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
async fn a_free_lock_costs_two_commands() {
    let server = Server::start();
    let locks = connected(server.url()).await;
    // Connecting tries what is permitted.
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

/// What a queue costs the server doesn't grow with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_behind_others_are_calm() {
    let server = Server::start();
    let managers = managers(&server.url(), 20).await;
    let holder = managers[0].lock("door").acquire().await.unwrap();
    let waiting: Vec<_> = managers[1..]
        .iter()
        .map(|locks| waiter(locks.lock("door").wait(LONG)))
        .collect();
    server.until_waiting("door", 19);
    server.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(2000)).await;
    let asked = server.calls(&["evalsha", "eval", "set"]);
    assert!(
        asked < 40,
        "19 waiters sent {asked} commands in two seconds"
    );
    waiting.iter().for_each(|waiter| waiter.abort());
    server.until_waiting("door", 0);
    holder.release().await.unwrap();
}
