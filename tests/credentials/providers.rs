//! Providers that fail, hang and panic: nothing is lost, and errors say what happened.

use std::error::Error;
use std::fmt;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_runtime::{Config, LockError, LockManager};

use super::{SECRET, USER, Vault, postgres, redis, text};
use lock_test_support::manager::{connected, until_renewed, use_once};
use lock_test_support::time::{PATIENCE, millis, soon};

type Login = Result<(String, String), Box<dyn Error + Send + Sync>>;

/// An error of a provider.
#[derive(Debug)]
struct Sealed;

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the vault is sealed")
    }
}

impl Error for Sealed {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Conduct {
    Works,
    Fails,
    Panics,
    PanicsBefore,
    Hangs,
    Blocks,
    WrongPassword,
}

const BAD: [(Conduct, &str); 5] = [
    (Conduct::Fails, "failed: the vault is sealed"),
    (Conduct::Panics, "panicked"),
    (Conduct::PanicsBefore, "panicked"),
    (Conduct::Hangs, "did not reply in time"),
    (Conduct::Blocks, "did not reply in time"),
];

/// A provider whose conduct the test changes.
#[derive(Clone)]
struct Provider {
    conduct: Arc<Mutex<Conduct>>,
    /// Ends the calls that block their threads.
    ends: Arc<AtomicBool>,
}

impl Provider {
    fn new(conduct: Conduct) -> Self {
        Self {
            conduct: Arc::new(Mutex::new(conduct)),
            ends: Arc::default(),
        }
    }

    fn set(&self, conduct: Conduct) {
        *self.conduct.lock().unwrap() = conduct;
    }

    fn of(&self, config: Config) -> Config {
        let provider = self.clone();
        config.credentials_from(move || {
            let (conduct, ends) = (*provider.conduct.lock().unwrap(), provider.ends.clone());
            if conduct == Conduct::PanicsBefore {
                give_up();
            }
            async move { provide(conduct, &ends).await }
        })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // The closure of a configuration has a clone, which is dropped later.
        if Arc::strong_count(&self.conduct) > 1 {
            self.ends.store(true, Ordering::SeqCst);
        }
    }
}

async fn provide(conduct: Conduct, ends: &AtomicBool) -> Login {
    match conduct {
        Conduct::Works | Conduct::PanicsBefore => {}
        Conduct::Fails => return Err(Sealed.into()),
        Conduct::Panics => give_up(),
        Conduct::Hangs => pending().await,
        Conduct::Blocks => {
            while !ends.load(Ordering::SeqCst) {
                std::thread::sleep(millis(10));
            }
        }
        Conduct::WrongPassword => return Ok((USER.to_owned(), format!("{SECRET}-wrong"))),
    }
    Ok((USER.to_owned(), format!("{SECRET}-0")))
}

/// Panics without the hook, whose backtrace takes longer than a connection may.
fn give_up() -> ! {
    resume_unwind(Box::new("the test requires this panic"))
}

/// Asserts that connecting fails, for a reason that may pass.
async fn cannot_connect(config: Config, limit: Duration) -> LockError {
    let error = soon(LockManager::connect(config.connect_timeout(limit))).await;
    let error = error.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let shown = format!("{} {error:?}", text(&error));
    assert!(!shown.contains(SECRET), "{shown}");
    error
}

/// Returns `true` if the error is among the sources.
fn has_source<E: Error + 'static>(error: &LockError) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.is::<E>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Asserts that connecting fails as long as the provider does, with its error.
pub async fn bad_providers_are_reported(config: Config) {
    for (conduct, words) in BAD {
        let provider = Provider::new(conduct);
        let config = provider.of(config.clone());
        assert!(!format!("{config:?}").contains(SECRET));
        // Only those that never end use up their time, which may be over before they are asked.
        let limits = match conduct {
            Conduct::Hangs | Conduct::Blocks => [400, 8000],
            _ => [10_000; 2],
        };
        let mut error = cannot_connect(config.clone(), millis(limits[0])).await;
        if !text(&error).contains(words) {
            error = cannot_connect(config.clone(), millis(limits[1])).await;
        }
        assert!(
            text(&error).contains(words),
            "{conduct:?}: {}",
            text(&error)
        );
        assert_eq!(has_source::<Sealed>(&error), conduct == Conduct::Fails);
        provider.set(Conduct::Works);
        connected(config).await.shutdown().await;
    }
    let wrong = Provider::new(Conduct::WrongPassword).of(config);
    let error = LockManager::connect(wrong).await.unwrap_err();
    let is_invalid = matches!(error, LockError::InvalidConfig { .. });
    assert!(is_invalid, "{}", text(&error));
    assert!(!format!("{} {error:?}", text(&error)).contains(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_redis_fails_with_the_error_of_the_provider() {
    let server = redis();
    bad_providers_are_reported(Config::new(server.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_postgres_fails_with_the_error_of_the_provider() {
    let server = postgres();
    bad_providers_are_reported(Config::new(server.url_for(USER))).await;
}

/// The lock of `locks` survives that its connections are killed while the provider fails; so does that of
/// another manager, whatever the provider does.
async fn held_lock_survives(config: Config, kill: impl Fn() -> usize) {
    let provider = Provider::new(Conduct::Works);
    let config = config.command_timeout(PATIENCE);
    let locks = connected(provider.of(config.clone()).connect_timeout(millis(800))).await;
    let other = connected(Provider::new(Conduct::Works).of(config)).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    let others = other.lock("other").acquire().await.unwrap();
    let bad = BAD.into_iter().step_by(2);
    let mut tries = 0;
    for (conduct, words) in bad.chain([(Conduct::WrongPassword, "")]) {
        provider.set(conduct);
        assert!(kill() > 0);
        let refused = async {
            loop {
                tries += 1;
                let next = locks.lock(format!("try:{tries}")).wait(millis(1200));
                match next.acquire().await {
                    Err(error) => return error,
                    // By a connection whose password came before. The release may find none any more.
                    Ok(guard) => drop((kill(), guard)),
                }
            }
        };
        let error = soon(refused).await;
        assert!(error.is_unavailable(), "{conduct:?}: {error}");
        assert!(
            text(&error).contains(words),
            "{conduct:?}: {}",
            text(&error)
        );
        assert!(!text(&error).contains(SECRET), "{}", text(&error));
        assert!(guard.is_valid() && others.is_valid(), "{conduct:?}");
        provider.set(Conduct::Works);
        // A provider that works may be late, too, on a busy machine.
        let next = async {
            loop {
                match locks.lock("next").wait(PATIENCE).acquire().await {
                    Err(error) if error.is_unavailable() => {}
                    next => return next.unwrap(),
                }
            }
        };
        let next = soon(next).await;
        next.release().await.unwrap();
        // It is renewed again, if it is due.
        let renewed = async {
            while guard.remaining() < millis(19_000) {
                tokio::time::sleep(millis(10)).await;
            }
        };
        soon(renewed).await;
    }
    until_renewed([&guard]).await;
    guard.release().await.unwrap();
    others.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_in_redis_survive_a_provider_that_fails() {
    let server = redis();
    let kill = || server.query(&format!("CLIENT KILL USER {USER}"));
    held_lock_survives(Config::new(server.url()), kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_in_postgres_survive_a_provider_that_fails() {
    let server = postgres();
    let kill = || server.terminate_connections();
    held_lock_survives(Config::new(server.url_for(USER)), kill).await;
}

/// It takes longer than the first tries to connect again may last.
#[tokio::test(flavor = "multi_thread")]
async fn slow_provider_is_awaited() {
    let server = redis();
    let config = Config::new(server.url()).credentials_from(|| async {
        tokio::time::sleep(millis(700)).await;
        Ok((USER.to_owned(), format!("{SECRET}-0")))
    });
    let locks = connected(config).await;
    for _ in 0..3 {
        assert!(server.query::<usize>(&format!("CLIENT KILL USER {USER}")) > 0);
        use_once(&locks, "row").await;
    }
}

/// The later call of both counts, and both count instead of the URL.
#[tokio::test(flavor = "multi_thread")]
async fn provider_replaces_other_credentials() {
    let server = redis();
    let url = server.url().replace("://", "://nobody:nothing@");
    let vault = Vault::new();
    let provided = vault.config(Config::new(&url).credentials("nobody", "nothing"));
    connected(provided.clone()).await.shutdown().await;
    let asked = vault.asked();
    assert!(asked > 0);
    let refused = LockManager::connect(provided.credentials("nobody", "nothing")).await;
    assert!(matches!(refused, Err(LockError::InvalidConfig { .. })));
    assert_eq!(vault.asked(), asked);
}

/// A service starts although its vault is sealed.
#[tokio::test(flavor = "multi_thread")]
async fn provider_may_fail_at_the_start() {
    let server = redis();
    let provider = Provider::new(Conduct::Fails);
    let config = provider.of(Config::new(server.url()));
    let locks = connected(config.start_disconnected(true)).await;
    let error = locks.ping().await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(
        text(&error).contains("the vault is sealed"),
        "{}",
        text(&error)
    );
    provider.set(Conduct::Works);
    let lock = locks.lock("row").wait(PATIENCE);
    let guard = lock.acquire().await.unwrap();
    guard.release().await.unwrap();
}
