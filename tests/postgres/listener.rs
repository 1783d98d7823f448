//! The connection for messages is replaced without a moment in which its process counts as dead, or misses a message.

use lock_test_support::manager::connected;
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::proxy::Proxy;
use lock_test_support::server::stop;
use lock_test_support::time::{comes_true_within, eventually, millis, patient, soon};

/// Returns the channel of the waiter, if it has given one.
fn channel(server: &Postgres, key: &str) -> Option<String> {
    let channel = format!("SELECT channel FROM distributed_lock.waiting WHERE name = 'lock:{key}'");
    let rows = server.rows(&channel).concat();
    rows.into_iter().last().filter(|it| !it.is_empty())
}

#[track_caller]
pub(super) fn until_listening(server: &Postgres, key: &str) -> String {
    let mut found = None;
    eventually("the waiter listens", || {
        found = channel(server, key);
        found.is_some()
    });
    found.unwrap()
}

/// A frozen backend is like one whose client is gone without a word: it keeps what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_hangs_does_not_keep_its_process_from_listening() {
    let server = Postgres::start();
    let (locks, other) = (
        connected(patient(server.url())).await,
        connected(patient(server.url())).await,
    );
    let (mut frozen, mut replaced) = (None, false);
    for _ in 0..20 {
        let guard = locks.lock("row").acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock("row").acquire());
        server.until_waiting("row", 1);
        if let Some(frozen) = &frozen {
            replaced = comes_true_within(millis(700), || {
                channel(&server, "row").is_some_and(|now| now != *frozen)
            });
        } else {
            frozen = Some(until_listening(&server, "row"));
            let listening = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%LISTEN%'
                AND pid <> pg_backend_pid()";
            stop(server.query(listening));
        }
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
        if replaced {
            break;
        }
    }
    assert!(replaced, "the process listens elsewhere");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'";
    assert_eq!(server.query::<usize>(waits), 0, "backends wait for a lock");
}

/// When a message was missed, the connection is replaced. Other waiters of the process listen on the old one until
/// they have asked again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_never_without_its_channel() {
    let server = Postgres::start();
    let requests = Proxy::to(server.port());
    let url = format!(
        "{}?listen=127.0.0.1:{}",
        url_at(requests.port()),
        server.port()
    );
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(url)).await;
    let guard = locks.lock("two").acquire().await.unwrap();
    let two = tokio::spawn(other.lock("two").acquire());
    let before = until_listening(&server, "two");
    requests.delay_requests(millis(100));
    // Within the time of a grant, the missed message may have been for a connection before this one.
    tokio::time::sleep(millis(2100)).await;
    let deaf = "SELECT count(*) FROM distributed_lock.waiting WHERE channel IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND ((classid::bigint << 32) | objid::bigint)
            = hashtextextended('distributed_lock listens ' || channel, 0))";
    let replaced = || {
        assert_eq!(server.query::<usize>(deaf), 0, "no process listens");
        channel(&server, "two").is_some_and(|now| now != before)
    };
    // Nothing is missed if the waiter asks when the grant has ended.
    for _ in 0..5 {
        let lost = locks.lock("one").acquire().await.unwrap();
        let one = tokio::spawn(other.lock("one").acquire());
        until_listening(&server, "one");
        // A grant without a message.
        server.execute(
            "WITH free AS (DELETE FROM distributed_lock.held WHERE name = 'lock:one'),
                next AS (DELETE FROM distributed_lock.waiting WHERE name = 'lock:one' RETURNING *)
             INSERT INTO distributed_lock.held SELECT name, token, max_holders, nextval('distributed_lock.fence'),
                clock_timestamp() + interval '1500 ms' FROM next",
        );
        drop(lost);
        soon(one).await.unwrap().unwrap().release().await.unwrap();
        if comes_true_within(millis(2000), replaced) {
            break;
        }
    }
    assert!(replaced(), "the waiter listens elsewhere");
    guard.release().await.unwrap();
    let guard = soon(two).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// Otherwise it would be passed over, and lose its place, until it asks again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_can_not_listen_any_more_says_so_at_once() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let url = format!("{}?listen=127.0.0.1:{}", server.url(), proxy.port());
    let locks = connected(patient(server.url())).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let mut others = Vec::new();
    // The farther back, the less often a waiter asks.
    for n in 1..=4 {
        let other = connected(patient(if n == 4 { url.clone() } else { server.url() })).await;
        others.push(tokio::spawn(other.lock("row").acquire()));
        server.until_waiting("row", n);
    }
    let last = "SELECT channel FROM distributed_lock.waiting WHERE name = 'lock:row' ORDER BY place DESC LIMIT 1";
    eventually("the last one listens", || {
        !server.query::<String>(last).is_empty()
    });
    proxy.cut();
    eventually("the last one has asked again", || {
        server.query::<String>(last).is_empty()
    });
    guard.release().await.unwrap();
    for other in others {
        let guard = soon(other).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// A message that arrives says that the connection works again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_listens_again_after_an_outage_of_its_listener() {
    let server = Postgres::start();
    let proxy = Proxy::to(server.port());
    let url = format!("{}?listen=127.0.0.1:{}", server.url(), proxy.port());
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(url)).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("row").acquire());
    for _ in 0..2 {
        until_listening(&server, "row");
        proxy.cut();
        eventually("the waiter asks", || channel(&server, "row").is_none());
        proxy.heal();
    }
    until_listening(&server, "row");
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}
