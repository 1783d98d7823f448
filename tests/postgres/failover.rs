//! Several hosts: the one that accepts writes is used, and a promoted standby takes over.

use super::fixture::Fixture;
use lock_test_support::manager::{connected, refusal, until_refused, until_renewed};
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{millis, patient, soon};

fn url_of(servers: &[&Postgres]) -> String {
    let hosts: Vec<_> = servers
        .iter()
        .map(|server| format!("127.0.0.1:{}", server.port()))
        .collect();
    format!("postgres://postgres@{}/postgres", hosts.join(","))
}

#[tokio::test]
async fn the_host_that_accepts_writes_is_used() {
    let server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let standby = server.standby();
    for url in [url_of(&[&standby, &server]), url_of(&[&server, &standby])] {
        let locks = connected(patient(url)).await;
        let guard = locks.lock("row").acquire().await.unwrap();
        assert!(server.is_held("row"));
        guard.release().await.unwrap();
        locks.shutdown().await;
    }
}

/// With a synchronous standby the lock survives the loss of its server, and fencing tokens grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lock_survives_failover_to_synchronous_standby() {
    let ttl = millis(24_000);
    let mut server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let mut standby = server.standby();
    server.wait_for_standby();
    let url = url_of(&[&server, &standby]);
    let connect = || connected(patient(&*url));
    let (locks, other) = (connect().await, connect().await);
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    let token = guard.fencing_token().await.unwrap();
    server.kill();
    // A promoted server waits for standbys, too, if it is told to.
    standby.promote();
    assert!(standby.is_held("row"), "the standby has the lock");
    let waiter = tokio::spawn(other.lock("row").acquire());
    standby.until_waiting("row", 1);
    // Renewals go to the new server.
    until_renewed([&guard]).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.fencing_token().await.unwrap() > token);
    guard.release().await.unwrap();
}

/// The standby has replayed how the schema was made, and has had no restartpoint since, which would have
/// written it to the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_served_by_a_standby_that_is_promoted_right_after_the_schema_was_made() {
    let mut server = Postgres::start();
    let mut standby = server.standby();
    let url = url_of(&[&server, &standby]);
    let locks = connected(patient(url.as_str())).await;
    server.until_replayed_by(&standby);
    server.kill();
    standby.promote();
    let other = connected(patient(url)).await;
    for _ in 0..3 {
        let guard = locks.lock("row").acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock("row").acquire());
        standby.until_waiting("row", 1);
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
}

/// An asynchronous standby may not have the last locks: two callers may hold one, and the fencing token tells
/// which is the later.
#[tokio::test]
async fn fencing_tokens_grow_over_a_failover_that_forgets() {
    let mut server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let network = lock_test_support::proxy::Proxy::to(server.port());
    let mut standby = server.standby_through(network.port());
    let url = url_of(&[&server, &standby]);
    let connect = || connected(patient(&*url));
    let (locks, other) = (connect().await, connect().await);
    server.until_replayed_by(&standby);
    network.black_hole();
    let mut last = 0;
    for _ in 0..100 {
        let guard = locks.lock("row").acquire().await.unwrap();
        last = guard.fencing_token().await.unwrap();
        guard.release().await.unwrap();
    }
    let held = locks.lock("row").acquire().await.unwrap();
    last = last.max(held.fencing_token().await.unwrap());
    server.kill();
    standby.promote();
    let second = soon(other.lock("row").acquire()).await.unwrap();
    assert!(
        second.fencing_token().await.unwrap() > last,
        "the later holder has the greater token"
    );
    second.release().await.unwrap();
    drop(held);
}

/// As if a pooler led to another server now: no connection of the client has ended.
#[tokio::test]
async fn fencing_tokens_grow_when_the_counter_falls_back() {
    let server = Postgres::start();
    let locks = connected(patient(server.url())).await;
    let mut last = 0;
    for _ in 0..3 {
        let guard = locks.lock("row").acquire().await.unwrap();
        let token = guard.fencing_token().await.unwrap();
        assert!(token > last, "{token} after {last}");
        guard.release().await.unwrap();
        server.execute("SELECT setval('distributed_lock.fence', 1)");
        last = token;
    }
}

/// A standby answers, and can keep no lock.
#[tokio::test]
async fn read_only_standby_is_rejected() {
    let server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let standby = server.standby();
    let (_, text) = refusal(standby.url(), "secret").await;
    let says_why = ["read-only", "standby", "read-write", "writes"];
    assert!(says_why.iter().any(|it| text.contains(it)), "{text}");
}

/// The `replicas` of an acquisition are standbys.
#[tokio::test]
async fn replicas_without_a_synchronous_standby_are_rejected() {
    let fixture = Fixture::start().await;
    until_refused(fixture.locks().lock("row").replicas(1), "synchronous").await;
    assert!(fixture.leftovers().is_empty(), "nothing is left behind");
}
