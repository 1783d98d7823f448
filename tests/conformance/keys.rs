//! Any text is a valid key, and keys do not affect each other.

use lock_runtime::{LockError, LockGuard};
use tokio::task::JoinSet;

use super::fixture::Fixture;
use lock_test_support::time::soon;

fn odd_keys() -> Vec<String> {
    let mut keys: Vec<_> = [
        "{}",
        "{a}",
        "}{",
        "{",
        "}",
        "{{a}}",
        "a{b",
        "a}b{c}d{e}",
        "{}{a}",
        "two words",
        " ",
        "line\r\nbreak",
        "tab\tnul\0",
        "\"quoted\" 'twice' \\",
        "größe:日本語:🔒",
        "{größe}:日本語",
        "a::queue:b",
        "*?[a-z]",
        "%s %d",
        "lock:",
    ]
    .map(str::to_owned)
    .into();
    keys.push("long:".repeat(800));
    keys.push(format!("{{{}}}", "日本語".repeat(200)));
    keys
}

/// Each key is acquired, waited for by another process, granted, fenced and released.
pub async fn unusual_keys_work(fixture: Fixture) {
    let mut tasks = JoinSet::new();
    for odd in odd_keys() {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            // With the odd part at the beginning, and at the end.
            let keys = [format!("{odd}{}", fixture.key("")), fixture.key(&odd)];
            for key in keys
                .into_iter()
                .filter(|it| it.len() < fixture.topology().longest_key)
            {
                let guard = fixture.locks().lock(&*key).acquire().await.unwrap();
                assert_eq!(guard.key(), key);
                assert!(fixture.is_held(&key).await, "{key}");
                let next = tokio::spawn(fixture.other().lock(&*key).acquire());
                fixture.until_waiting(&key, 1).await;
                let first = guard.fencing_token().await.unwrap();
                guard.release().await.unwrap();
                let next = soon(next).await.unwrap().unwrap();
                assert!(next.fencing_token().await.unwrap() > first, "{key}");
                next.release().await.unwrap();
                fixture.until_free(&key).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

pub async fn invalid_keys_are_rejected(fixture: Fixture) {
    for key in ["", ":", ":a", "::fence", "::queue:a"] {
        let error = fixture.locks().lock(key).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        let is_named = !key.is_empty() || error.to_string().contains("empty");
        assert!(is_named, "{error}");
    }
}

/// Hundreds of locks are held and released at the same time.
pub async fn many_keys_are_held_and_released_at_once(fixture: Fixture) {
    let keys: Vec<_> = (0..300).map(|n| fixture.key(&n.to_string())).collect();
    let take = |key: &String| fixture.locks().lock(&**key).acquire();
    let taken: JoinSet<_> = keys.iter().map(take).collect();
    let guards = taken.join_all().await;
    let guards: Result<Vec<_>, _> = guards.into_iter().collect();
    let guards = guards.unwrap();
    for key in keys.iter().step_by(10) {
        assert!(
            fixture
                .other()
                .lock(&**key)
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
    }
    assert!(guards.iter().all(LockGuard::is_valid));
    drop(guards);
    for key in &keys {
        fixture.until_free(key).await;
    }
}
