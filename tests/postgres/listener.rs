//! The connection for messages is replaced, and no waiter of its process misses for long what was sent
//! meanwhile.

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

/// Returns the backends that listen.
fn listening(server: &Postgres) -> Vec<u32> {
    let pids =
        "SELECT pid FROM pg_stat_activity WHERE query LIKE '%LISTEN%' AND pid <> pg_backend_pid()";
    let rows = server.rows(pids).concat();
    rows.iter().map(|pid| pid.parse().unwrap()).collect()
}

/// Waits for a lock, with messages from the server itself, while a process with that URL holds it. Requests
/// go through a proxy to that port. Fails unless the grant comes by a message in one of ten tries: in each of
/// them, a request may be due.
pub(super) async fn grant_comes_by_message(
    server: &Postgres,
    (url, port): (String, u16),
    meanwhile: impl Fn(),
) {
    let network = Proxy::recording(port);
    let listen = format!("?listen=127.0.0.1:{}", server.port());
    let one = connected(patient(url)).await;
    let two = connected(patient(url_at(network.port()) + &listen)).await;
    for _ in 0..10 {
        let guard = one.lock("row").acquire().await.unwrap();
        let waiter = tokio::spawn(two.lock("row").acquire());
        // A request of a waiter contains its channel.
        let channel = until_listening(server, "row");
        meanwhile();
        let asked = network.sent(&channel);
        eventually("it asks less often", || network.sent(&channel) > asked + 2);
        assert_eq!(until_listening(server, "row"), channel);
        let asked = network.sent(&channel);
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        let is_by_message = network.sent(&channel) == asked;
        guard.release().await.unwrap();
        if is_by_message {
            return;
        }
    }
    panic!("it asks each time");
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
        if let Some(frozen) = frozen {
            let others = || listening(&server).iter().any(|pid| *pid != frozen);
            replaced = comes_true_within(millis(700), others);
        } else {
            until_listening(&server, "row");
            let pid = listening(&server)[0];
            frozen = Some(pid);
            stop(pid);
        }
        if replaced {
            until_listening(&server, "row");
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

/// When a message was missed, the connection is replaced. Other waiters of the process keep their channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_missed_a_message_is_replaced() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let other = connected(patient(server.url())).await;
    let guard = locks.lock("two").acquire().await.unwrap();
    let two = tokio::spawn(other.lock("two").acquire());
    let channel = until_listening(&server, "two");
    let before = listening(&server);
    // Within the time of a grant, the missed message may have been for a connection before this one.
    tokio::time::sleep(millis(2100)).await;
    let replaced = || {
        let now = listening(&server);
        now.len() == 1 && now != before
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
    assert!(replaced(), "the process listens elsewhere, and only there");
    assert_eq!(until_listening(&server, "two"), channel);
    guard.release().await.unwrap();
    let guard = soon(two).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

/// The server may end a connection while its process waits: then another one listens, and the grant comes by
/// a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_comes_by_message_after_the_connection_for_messages_was_ended() {
    let server = Postgres::start();
    let is_replaced = || {
        let ended = listening(&server)[0];
        server.execute(&format!("SELECT pg_terminate_backend({ended})"));
        eventually(
            "another connection listens, alone",
            || matches!(listening(&server)[..], [pid] if pid != ended),
        );
    };
    grant_comes_by_message(&server, (server.url(), server.port()), is_replaced).await;
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
