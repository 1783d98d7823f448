//! Checks the commands that are sent to the server.

use std::time::Instant;

use lock_runtime::{LockError, LockManager, ReleaseMode, distributed_lock};

use super::fixture::Fixture;

use lock_test_support::manager::{connected, until_renewed};
use lock_test_support::time::{PATIENCE, eventually, millis, soon};

#[distributed_lock(key = "order:<id>", manager = locks)]
async fn ship(locks: &LockManager, id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[tokio::test]
async fn uncontended_call_sends_two_commands() {
    let fixture = Fixture::start().await;
    ship(fixture.locks(), 1).await.unwrap();

    let monitor = fixture.monitor();
    ship(fixture.locks(), 42).await.unwrap();
    let commands = monitor.commands(&fixture);
    let [set, release] = &commands[..] else {
        panic!("{commands:#?}")
    };

    let words: Vec<_> = set.split(' ').map(|word| word.trim_matches('"')).collect();
    let ["SET", "lock:order:42", token, "NX", "PX", "30000"] = words[..] else {
        panic!("{set}")
    };
    assert!(token.len() >= 22, "`{token}` cannot be guessed");
    assert!(release.starts_with("\"EVALSHA\" "), "{release}");
    assert!(
        release.contains("\"lock:order:42\"") && release.contains(token),
        "{release}"
    );
}

/// A process may report meanwhile.
fn of_row(commands: Vec<String>) -> Vec<String> {
    let names_it = |command: &String| command.contains("lock:row");
    commands.into_iter().filter(names_it).collect()
}

/// The README's performance table says so.
#[tokio::test]
async fn next_call_with_a_lazy_release_sends_nothing() {
    let fixture = Fixture::start().await;
    let lock = || {
        let lock = fixture.locks().lock("row").ttl(millis(60_000));
        lock.release_mode(ReleaseMode::Lazy)
    };
    let kept = async {
        while fixture.locks().stats().resumed == 0 {
            lock().run(async |_| ()).await.unwrap();
        }
    };
    soon(kept).await;
    let monitor = fixture.monitor();
    for _ in 0..100 {
        lock().run(async |_| ()).await.unwrap();
    }
    assert_eq!(of_row(monitor.commands(&fixture)), [""; 0]);
    fixture.locks().shutdown().await;
}

/// However often the future is dropped and made again.
#[tokio::test]
async fn holder_looks_once_a_second_who_waits() {
    let fixture = Fixture::start().await;
    let guard = fixture.locks().lock("row").acquire().await.unwrap();
    let monitor = fixture.monitor();
    let begun = Instant::now();
    for _ in 0..200 {
        let early = tokio::time::timeout(millis(5), guard.wanted()).await;
        assert!(early.is_err(), "nobody waits");
    }
    let looks = begun.elapsed().as_secs() as usize + 1;
    let sent = of_row(monitor.commands(&fixture)).len();
    // The first call of a script may be repeated with its source.
    assert!(0 < sent && sent <= looks + 1, "{sent} commands");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn every_hold_has_unique_token() {
    let fixture = Fixture::start().await;
    let mut tokens = std::collections::HashSet::new();
    for _ in 0..20 {
        let guard = fixture.locks().lock("row").acquire().await.unwrap();
        assert!(tokens.insert(fixture.query::<String>("GET lock:row")));
        guard.release().await.unwrap();
    }
}

/// Shares locks with clients that use no prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_prefix_makes_the_key_the_name() {
    let fixture = Fixture::start().await;
    let config = || lock_runtime::Config::new(fixture.url()).prefix("");
    let (locks, others) = (connected(config()).await, connected(config()).await);
    let guard = locks.lock("row").acquire().await.unwrap();
    assert!(fixture.query::<u64>("PTTL row") > 0);
    assert!(
        fixture
            .query::<Option<String>>("SET row other NX")
            .is_none()
    );
    let lock = others.lock("row").wait(PATIENCE);
    let next = tokio::spawn(lock.acquire());
    eventually("it waits", || {
        fixture.query::<usize>("ZCARD ::queue:row") == 1
    });
    assert!(guard.fencing_token().await.unwrap() > 0);
    guard.release().await.unwrap();
    let guard = next.await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert_eq!(fixture.query::<usize>("EXISTS row ::queue:row"), 0);
}

#[tokio::test]
async fn configured_prefix_and_ttl_are_used() {
    let fixture = Fixture::start().await;
    let config = lock_runtime::Config::new(fixture.url())
        .prefix("shop/")
        .ttl(millis(60_000));
    let locks = connected(config).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    assert_eq!(guard.key(), "row");
    let left: u64 = fixture.query("PTTL shop/row");
    assert!((30_001..=60_000).contains(&left), "{left} ms");
    guard.fencing_token().await.unwrap();
    let keys: Vec<String> = fixture.query("KEYS *");
    assert!(keys.iter().all(|key| key.starts_with("shop/")), "{keys:?}");
    guard.release().await.unwrap();
}

/// Keys that look like patterns, hash tags or derived keys have no special meaning.
#[tokio::test]
async fn any_key_is_a_plain_name() {
    let fixture = Fixture::start().await;
    for key in [
        "{user:1}:cart",
        "a b\tc",
        "ключ",
        "*",
        "{}",
        "a:fence",
        "a}{b",
        "%s\0\n",
    ] {
        let guard = fixture.locks().lock(key).acquire().await.unwrap();
        assert!(guard.fencing_token().await.unwrap() > 0, "{key}");
        assert!(
            fixture
                .locks()
                .lock(key)
                .try_acquire()
                .await
                .unwrap()
                .is_none(),
            "{key}"
        );
        guard.release().await.unwrap();
        assert!(fixture.key_count() <= 1, "{key}");
    }
}

/// A lock is renewed with one token while it is held, and never after its release.
#[tokio::test]
async fn lock_is_renewed_until_release() {
    let fixture = Fixture::start().await;
    let lock = fixture.locks().lock("row").ttl(millis(4500));
    let guard = lock.acquire().await.unwrap();
    let token: String = fixture.query("GET lock:row");
    until_renewed([&guard]).await;
    assert_eq!(fixture.query::<String>("GET lock:row"), token);
    guard.release().await.unwrap();
    fixture.query::<()>("CONFIG RESETSTAT");
    tokio::time::sleep(millis(1600)).await;
    assert_eq!(fixture.calls(&["pexpire", "evalsha", "eval", "set"]), 0);
}
