//! During an outage calls fail within their `wait`. After it, locks work again soon, and what was not
//! confirmed is released.

use std::time::{Duration, Instant};

use lock_runtime::LockError;

use super::fixture::{COMMAND_TIMEOUT, Fixture, config_of};
use super::log::Log;
use lock_test_support::manager::connected;
use lock_test_support::proxy::Proxy;
use lock_test_support::time::{NOISE, millis, patient, soon, within};

pub async fn calls_fail_in_time_during_an_outage_and_work_after_it(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    for fault in [Proxy::cut, Proxy::black_hole] {
        network.each(fault);
        // A single try takes no longer than the servers may take to reply.
        let start = Instant::now();
        let error = locks.lock(&*row).try_acquire().await.unwrap_err();
        let took = start.elapsed();
        assert!(error.is_unavailable(), "{error}");
        assert!(took <= COMMAND_TIMEOUT + NOISE, "{took:?}");
        // The first call may discover the outage, the second knows of it already.
        for _ in 0..2 {
            let start = Instant::now();
            let acquire = locks.lock(&*row).wait(millis(400)).acquire();
            let error = acquire.await.unwrap_err();
            let took = start.elapsed();
            assert!(error.is_unavailable() && !error.is_busy(), "{error}");
            assert_eq!(error.key(), Some(&*row));
            assert!(took <= millis(400) + NOISE, "{took:?}");
        }
        network.each(Proxy::heal);
        drop(soon(locks.lock(&*row).acquire()).await.unwrap());
        fixture.until_free(&row).await;
    }
    locks.shutdown().await;
}

/// However often connecting fails, and however often the connection breaks.
pub async fn lost_connection_and_its_return_are_logged_once(fixture: Fixture) {
    const PERIOD: Duration = millis(5000);
    const LOST: &str = "WARN lock_runtime: connection lost";
    const RESTORED: &str = "INFO lock_runtime: connection restored";
    const REQUESTS: &str = "carries=\"requests\"";
    const MESSAGES: &str = "carries=\"messages\"";
    let log = Log::begin();
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    // A process that waits may have a connection for messages.
    let taken = fixture.key("taken");
    let _holder = fixture.other().lock(&*taken).acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock(&*taken).acquire());
    let logged = |words: &[&str]| {
        let counts = network.proxies.iter().map(|proxy| log.count(proxy, words));
        counts.collect::<Vec<_>>()
    };
    // An idle connection is restored only when it is needed.
    let until_each = async |words: &[&str], least: &[usize]| {
        let all = async {
            while logged(words)
                .iter()
                .zip(least)
                .any(|(has, least)| has < least)
            {
                let probe = locks.lock(fixture.key("probe")).wait(millis(50));
                drop(probe.acquire().await);
            }
        };
        soon(all).await;
    };
    let begun = Instant::now();
    network.each(Proxy::cut);
    let once = vec![1; network.proxies.len()];
    until_each(&[LOST, REQUESTS], &once).await;
    let refused = network.count(Proxy::refused);
    network
        .until_more_than(refused + 5 * once.len(), Proxy::refused)
        .await;
    assert_eq!(logged(&[LOST, REQUESTS]), once);
    network.each(Proxy::heal);
    for carried in [REQUESTS, MESSAGES] {
        let lost = logged(&[LOST, carried]);
        assert!(lost.iter().all(|count| *count <= 1), "{carried}: {lost:?}");
        until_each(&[RESTORED, carried], &lost).await;
        assert_eq!(logged(&[RESTORED, carried]), lost);
    }
    for _ in 0..6 {
        let refused = network.count(Proxy::refused);
        network.each(Proxy::cut);
        network.until_more_than(refused, Proxy::refused).await;
        network.each(Proxy::heal);
        let probe = locks.lock(fixture.key("probe"));
        drop(soon(probe.acquire()).await.unwrap());
    }
    for carried in [REQUESTS, MESSAGES] {
        let (restored, lost) = (logged(&[RESTORED, carried]), logged(&[LOST, carried]));
        let most = 1 + (begun.elapsed().as_secs_f64() / PERIOD.as_secs_f64()) as usize;
        assert!(lost.iter().all(|count| *count <= most), "{lost:?}");
        assert!(restored.iter().zip(&lost).all(|(back, lost)| back <= lost));
    }
    waiter.abort();
    soon(locks.shutdown()).await;
}

/// The servers end all connections, again and again.
pub async fn broken_connections_are_replaced(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    let guard = locks.lock(&*row).acquire().await.unwrap();
    for n in 0..4 {
        network.each(Proxy::cut);
        network.each(Proxy::heal);
        let other = locks.lock(fixture.key(&format!("other:{n}")));
        drop(soon(other.acquire()).await.unwrap());
    }
    assert!(guard.is_valid());
    drop(guard);
    fixture.until_free(&row).await;
    soon(locks.shutdown()).await;
}

pub async fn release_during_outage_is_retried_until_recovery(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    for (n, fault) in [Proxy::cut, Proxy::black_hole].into_iter().enumerate() {
        let row = fixture.key(&format!("row:{n}"));
        let dropped = fixture.key(&format!("dropped:{n}"));
        let first = locks.lock(&*dropped).acquire().await.unwrap();
        let guard = locks.lock(&*row).acquire().await.unwrap();
        network.each(fault);
        drop(first);
        let error = soon(guard.release()).await.unwrap_err();
        assert!(
            error.is_unavailable() && error.key() == Some(&*row),
            "{error}"
        );
        assert!(fixture.is_held(&row).await && fixture.is_held(&dropped).await);
        network.each(Proxy::heal);
        fixture.until_free(&row).await;
        fixture.until_free(&dropped).await;
    }
    locks.shutdown().await;
}

pub async fn shutdown_waits_for_retried_release(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let row = fixture.key("row");
    let guard = locks.lock(&*row).acquire().await.unwrap();
    let refused = network.count(Proxy::refused);
    network.each(Proxy::cut);
    drop(guard);
    let heal = async {
        network.until_more_than(refused, Proxy::refused).await;
        network.each(Proxy::heal);
    };
    soon(async { tokio::join!(locks.shutdown(), heal) }).await;
    assert!(!fixture.is_held(&row).await);
}

/// Neither releases nor waiters take longer than their ttl. The place in the queue that the servers still
/// keep costs others no more than that of a crashed process.
pub async fn shutdown_during_outage_ends_within_ttl(fixture: Fixture) {
    let Some((network, locks)) = fixture.over_a_network().await else {
        return;
    };
    let (row, taken, ttl) = (
        fixture.key("row"),
        fixture.key("taken"),
        fixture.short_lease(),
    );
    let holder = fixture.other().lock(&*taken).acquire().await.unwrap();
    let held = locks.lock(&*row).ttl(ttl).acquire().await.unwrap();
    let waiter = tokio::spawn(locks.lock(&*taken).ttl(ttl).acquire());
    // What the waiter sent first has been answered. The last member of a quorum may never get this release.
    let warm = locks.lock(fixture.key("warm")).ttl(ttl).acquire();
    drop(warm.await.unwrap().release().await);
    let sent = network.count(Proxy::held);
    network.each(Proxy::black_hole);
    drop(held);
    // What follows is behind the release, which is never answered. It is not even sent behind a look of the
    // waiter that has no reply.
    let is_sent = network.until_more_than(sent, Proxy::held);
    let _ = tokio::time::timeout(COMMAND_TIMEOUT, is_sent).await;
    let start = Instant::now();
    locks.shutdown().await;
    let took = start.elapsed();
    assert!(took <= ttl + COMMAND_TIMEOUT + NOISE, "{took:?}");
    let error = waiter.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    holder.release().await.unwrap();
    let next = fixture.other().lock(&*taken).acquire();
    let next = within(fixture.crash_costs(ttl) + NOISE, next).await;
    next.unwrap().release().await.unwrap();
    network.each(Proxy::heal);
    fixture.until_free(&row).await;
    if !fixture.has_queue() {
        // It goes on to leave the members of a quorum that it reaches again. A place stays there for 50 s.
        fixture.until_not_waiting(&taken).await;
    }
}

/// High latency only slows calls down.
pub async fn slow_network_only_delays_calls(fixture: Fixture) {
    let Some(network) = fixture.network() else {
        return;
    };
    let locks = connected(patient(config_of(network.urls.clone()))).await;
    let row = fixture.key("row");
    network.each(|proxy| proxy.delay(millis(60)));
    let guard = soon(locks.lock(&*row).acquire()).await.unwrap();
    assert!(guard.fencing_token().await.unwrap() > 0);
    soon(guard.release()).await.unwrap();
    assert!(!fixture.is_held(&row).await);
    locks.shutdown().await;
}
