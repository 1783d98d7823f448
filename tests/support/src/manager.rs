//! Connects a lock manager on a machine that may be busy.

use std::error::Error;
use std::mem::replace;
use std::time::Duration;

use lock_runtime::{Config, Lock, LockError, LockGuard, LockManager, Report};
use tokio::time::Instant;

use crate::time::{NOISE, PATIENCE, millis, soon};

/// Returns the configuration of a manager that reports nothing, for a test that counts commands or keys.
pub fn silent(config: impl Into<Config>) -> Config {
    config.into().report(Report::Off)
}

/// Connects, and acquires and releases a lock, so that scripts are loaded and connections open. Retries if a
/// server does not reply in time.
pub async fn warmed_up(config: impl Into<Config>) -> LockManager {
    let locks = connected(config).await;
    let watch = Instant::now();
    let use_lock = async || locks.lock("warm").acquire().await?.release().await;
    loop {
        match use_lock().await {
            Ok(()) => return locks,
            Err(error) if error.is_unavailable() && watch.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Acquires and releases the lock, which is free.
pub async fn use_once(locks: &LockManager, key: &str) {
    let guard = locks.lock(key).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// Waits until a call for the lock fails for a reason that contains these words: a server may be too slow to
/// say it.
pub async fn until_refused(lock: Lock, words: &str) {
    let refused = async {
        loop {
            let call = lock.clone().wait(millis(300)).acquire();
            let error = call.await.unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
            if format!("{error} {error:?}").contains(words) {
                break;
            }
        }
    };
    soon(refused).await;
}

/// Waits until each lock has been renewed once more.
pub async fn until_renewed<'a>(guards: impl IntoIterator<Item = &'a LockGuard>) {
    let guards = guards.into_iter();
    let mut waiting: Vec<_> = guards.map(|it| (it, it.remaining())).collect();
    let renewed = async {
        while !waiting.is_empty() {
            tokio::time::sleep(millis(10)).await;
            waiting.retain_mut(|(guard, left)| {
                assert!(guard.is_valid(), "`{}` is lost", guard.key());
                let before = replace(left, guard.remaining());
                *left <= before
            });
        }
    };
    soon(renewed).await;
}

/// Returns the error of connecting for some seconds, like [`refusal_of`].
pub async fn refusal(config: impl Into<Config>, secret: &str) -> (LockError, String) {
    refusal_of(config.into().connect_timeout(millis(5000)), secret).await
}

/// Returns the error of connecting, and its text with those of its sources. Asserts that neither the error
/// nor the configuration shows the secret.
pub async fn refusal_of(config: Config, secret: &str) -> (LockError, String) {
    assert!(!format!("{config:?}").contains(secret));
    let error = soon(LockManager::connect(config)).await.unwrap_err();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    assert!(!format!("{text} {error:?}").contains(secret), "{text}");
    (error, text)
}

/// Connects, and retries if a server does not reply within the connect timeout.
pub async fn connected(config: impl Into<Config>) -> LockManager {
    let config = config.into();
    let watch = Instant::now();
    loop {
        match LockManager::connect(config.clone()).await {
            Ok(locks) => return locks,
            Err(LockError::Unavailable { .. }) if watch.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until a ping succeeds.
pub async fn until_pinged(locks: &LockManager) {
    let pinged = async {
        while locks.ping().await.is_err() {
            tokio::time::sleep(millis(5)).await;
        }
    };
    soon(pinged).await;
}

/// Asserts that pings fail: the first may discover the outage, the second knows of it. Returns how long one
/// took at most.
pub async fn pings_take(locks: &LockManager) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..2 {
        let begun = Instant::now();
        let error = soon(locks.ping()).await.unwrap_err();
        longest = longest.max(begun.elapsed());
        assert!(error.is_unavailable() && error.key().is_none(), "{error}");
    }
    longest
}

/// Asserts that pings fail within the command timeout.
pub async fn pings_fail(locks: &LockManager, command_timeout: Duration) {
    let took = pings_take(locks).await;
    assert!(took < command_timeout + NOISE, "{took:?}");
}
