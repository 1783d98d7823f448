//! A manager that starts without its servers works once they are there, and hides nothing that they refuse.

use std::time::Instant;

use lock_runtime::{Config, LockError, LockManager, distributed_lock};
use tokio::task::spawn_blocking;

use super::faults::Fault;
use super::fixture::{COMMAND_TIMEOUT, Fixture, config_of};
use super::inputs::SECRET;
use lock_test_support::manager::{connected, pings_fail, pings_take, until_pinged};
use lock_test_support::proxy::Proxy;
use lock_test_support::servers::Network;
use lock_test_support::time::{NOISE, PATIENCE, millis, patient, soon};

#[distributed_lock(key = "<key>", manager = locks, wait = "60s")]
async fn annotated(locks: &LockManager, key: &str) -> Result<(), LockError> {
    Ok(())
}

/// Returns the configuration of a manager that may start without its servers.
fn disconnected(fixture: &Fixture, urls: Vec<String>) -> Config {
    let config = fixture.impatient_config(urls);
    config
        .connect_timeout(millis(1000))
        .start_disconnected(true)
}

pub async fn manager_starts_during_an_outage(fixture: Fixture) {
    let Some(network) = fixture.network() else {
        return;
    };
    let (row, keys) = (fixture.key("row"), ["b", "a"].map(|key| fixture.key(key)));
    for fault in [Proxy::cut, Proxy::black_hole] {
        network.each(fault);
        let config = disconnected(&fixture, network.urls.clone());
        let start = Instant::now();
        let locks = LockManager::connect(config).await.unwrap();
        let took = start.elapsed();
        assert!(took <= millis(1000) + NOISE, "{took:?}");

        pings_fail(&locks, COMMAND_TIMEOUT).await;
        assert_eq!(locks.stats().servers_down, 1);
        let error = locks.inspect(&row).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(!locks.check_servers().await.is_empty());
        let start = Instant::now();
        let error = locks.lock(&*row).try_acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(start.elapsed() <= COMMAND_TIMEOUT + NOISE);
        let start = Instant::now();
        let lock = locks.lock(&*row).wait(millis(400));
        let error = lock.acquire().await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(error.key(), Some(&*row));
        let took = start.elapsed();
        assert!(millis(400) <= took && took <= millis(400) + NOISE);
        assert_eq!(locks.stats().unavailable, 2);
        // What is wrong in any case is told at once.
        let error = locks.lock("").acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");

        let lock = locks.lock(&*row);
        let waiter = tokio::spawn(async move { lock.acquire().await?.fencing_token().await });
        let of_all = tokio::spawn(locks.lock_all(keys.clone()).acquire());
        let (of_attribute, key) = (locks.clone(), fixture.key("annotated"));
        let of_attribute = tokio::spawn(async move { annotated(&of_attribute, &key).await });
        let refused = (!fixture.has_permits())
            .then(|| tokio::spawn(locks.lock(fixture.key("p")).permits(2).acquire()));
        network.each(Proxy::heal);
        soon(until_pinged(&locks)).await;
        assert!(soon(waiter).await.unwrap().unwrap() > 0);
        soon(of_attribute).await.unwrap().unwrap();
        let guard = soon(of_all).await.unwrap().unwrap();
        for key in &keys {
            assert!(fixture.is_held(key).await);
        }
        guard.release().await.unwrap();
        if let Some(refused) = refused {
            // Only now it is known that the servers can't count holders.
            let error = soon(refused).await.unwrap().unwrap_err();
            assert!(matches!(error, LockError::Unsupported { .. }), "{error}");
        }
        assert_eq!(locks.stats().servers_down, 0);
        fixture.until_free(&row).await;
        soon(locks.shutdown()).await;
    }
}

pub async fn manager_starts_before_its_servers(fixture: Fixture) {
    let Some(alone) = fixture.alone().await else {
        return;
    };
    alone.suffer(Fault::Crash).await;
    let urls = alone.with_servers(|servers| servers.urls()).await;
    let locks = LockManager::connect(disconnected(&fixture, urls)).await;
    let locks = locks.unwrap();
    pings_take(&locks).await;
    let waiter = tokio::spawn(locks.lock("row").acquire());
    alone.recover(Fault::Crash).await;
    until_pinged(&locks).await;
    let guard = soon(waiter).await.unwrap().unwrap();
    until_pinged(&alone.other).await;
    // A server that has just started may be slow.
    let taken = async {
        loop {
            match alone.other.lock("row").try_acquire().await {
                Err(error) if error.is_unavailable() => {}
                tried => return tried,
            }
        }
    };
    assert!(soon(taken).await.unwrap().is_none());
    drop(guard);
    soon(locks.shutdown()).await;
    alone.close().await;
}

/// It neither waits for the servers nor lets calls wait for them.
pub async fn shutdown_before_the_first_connection_ends_waits(fixture: Fixture) {
    let Some(network) = fixture.network() else {
        return;
    };
    network.each(Proxy::cut);
    let config = disconnected(&fixture, network.urls.clone());
    let locks = LockManager::connect(config).await.unwrap();
    let waiters = [1, 2].map(|n| locks.lock(fixture.key(&n.to_string())));
    let waiters = waiters.map(|lock| tokio::spawn(lock.acquire()));
    tokio::task::yield_now().await;
    soon(locks.shutdown()).await;
    for waiter in waiters {
        let error = soon(waiter).await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    }
    let error = locks.ping().await.unwrap_err();
    assert!(matches!(error, LockError::ShuttingDown { .. }), "{error}");
    network.each(Proxy::heal);
}

pub async fn unsafe_servers_are_refused_when_they_come(fixture: Fixture) {
    let Some(network) = fixture.network() else {
        return;
    };
    if fixture.locks().check_servers().await.is_empty() {
        return;
    }
    network.each(Proxy::cut);
    let config = disconnected(&fixture, network.urls.clone()).connect_timeout(millis(2000));
    let locks = LockManager::connect(config.refuse_unsafe_servers(true)).await;
    let locks = locks.unwrap();
    let waiter = tokio::spawn(locks.lock(fixture.key("row")).acquire());
    network.each(Proxy::heal);
    let error = soon(waiter).await.unwrap().unwrap_err();
    is_refused(&locks, &error, |it| {
        matches!(it, LockError::UnsafeServer { .. })
    })
    .await;
}

pub async fn wrong_credentials_are_told_when_the_servers_come(fixture: Fixture) {
    let Some(accounts) = fixture.topology().inputs.accounts else {
        return;
    };
    let accounts = spawn_blocking(accounts).await.unwrap();
    let servers = accounts.servers;
    let Some(network) = Network::to(&*servers, &servers.ports(), Proxy::to) else {
        return;
    };
    // In ZooKeeper, who comes first sets the password.
    let right = connected(patient(accounts.right[0].clone())).await;
    let guard = right.lock("right").acquire().await.unwrap();
    network.each(Proxy::cut);
    let urls = config_of(network.urls.clone()).credentials("me", format!("wrong-{SECRET}"));
    let config = urls.start_disconnected(true);
    let at_first = config.clone().connect_timeout(millis(2000));
    let locks = LockManager::connect(at_first).await.unwrap();
    let waiter = tokio::spawn(locks.lock("row").acquire());
    network.each(Proxy::heal);
    let error = soon(waiter).await.unwrap().unwrap_err();
    let is_rejection = |error: &LockError| matches!(error, LockError::InvalidConfig { .. });
    is_refused(&locks, &error, is_rejection).await;
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error:?}");
    // If the servers are there, a service does not even start.
    let config = config.connect_timeout(PATIENCE);
    let error = LockManager::connect(config).await.unwrap_err();
    assert!(is_rejection(&error), "{error}");
    guard.release().await.unwrap();
    right.shutdown().await;
    spawn_blocking(|| drop(servers)).await.unwrap();
}

/// Asserts that the ping and each call fail like that, at once.
async fn is_refused(locks: &LockManager, first: &LockError, expected: fn(&LockError) -> bool) {
    assert!(expected(first), "{first:?}");
    assert!(!first.is_retryable());
    let errors = soon(async {
        [
            locks.ping().await.unwrap_err(),
            locks.lock("row").acquire().await.unwrap_err(),
            locks.lock("row").try_acquire().await.unwrap_err(),
            locks.inspect("row").await.unwrap_err(),
        ]
    });
    let errors = errors.await;
    for error in errors {
        assert!(expected(&error), "{error:?}");
    }
    soon(locks.shutdown()).await;
}
