//! Any key names a lock of its own, however long or strange.

use lock_runtime::LockError;

use super::fixture::Fixture;
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::time::{eventually, patient, soon};

/// Keys that a column, an index or an encoding could confuse.
fn strange() -> Vec<String> {
    let long = "k".repeat(5000);
    let wide = "ü".repeat(2500);
    [
        "a",
        "a ",
        "A",
        "a\0",
        "a\\0",
        "a\\\\0",
        "\0",
        "\\",
        "%",
        "_",
        "'; DROP SCHEMA distributed_lock CASCADE; --",
        "$1",
        "ä",
        "a\u{308}",
        "\u{10ffff}",
        "\r\n\t",
        &long,
        &format!("{long}k"),
        &format!("{long}..."),
        &wide,
        &format!("{}ue", &wide[..wide.len() - 2]),
    ]
    .map(str::to_owned)
    .to_vec()
}

#[tokio::test]
async fn strange_keys_are_locks_of_their_own() {
    let fixture = Fixture::start().await;
    let other = connected(patient(fixture.url())).await;
    let mut guards = Vec::new();
    for key in strange() {
        let guard = fixture.locks().lock(&*key).try_acquire().await.unwrap();
        let shown: String = key.chars().take(20).collect();
        guards.push(guard.unwrap_or_else(|| panic!("`{shown}` is another key's lock")));
    }
    for key in strange() {
        let again = other.lock(&*key).try_acquire().await.unwrap();
        assert!(again.is_none(), "`{}` has two holders", key.escape_debug());
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    other.shutdown().await;
}

/// What replaces the end of a long key needs no Unicode.
#[tokio::test]
async fn long_key_is_stored_in_any_encoding() {
    let server = Postgres::start();
    server.execute(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    let url = format!("postgres://postgres@127.0.0.1:{}/latin", server.port());
    let locks = connected(patient(url)).await;
    let guard = locks.lock("k".repeat(5000)).acquire().await.unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
}

/// Only the server knows its encoding.
#[tokio::test]
async fn key_that_the_encoding_lacks_is_invalid() {
    let server = Postgres::start();
    server.execute(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    let url = format!("postgres://postgres@127.0.0.1:{}/latin", server.port());
    let locks = connected(patient(url)).await;
    let waits = locks.lock("名").acquire().await;
    let tries = locks.lock("名").try_acquire().await;
    let several = locks.lock_all(["a", "名"]).acquire().await;
    for error in [waits.unwrap_err(), tries.unwrap_err(), several.unwrap_err()] {
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
        assert!(error.to_string().contains("UTF8"), "{error}");
    }
    // Neither does it fail the requests beside it.
    let guards = ["ä", "名", "b"].map(|key| tokio::spawn(locks.lock(key).acquire()));
    let [umlaut, lacking, ascii] = guards;
    assert!(lacking.await.unwrap().is_err());
    for guard in [umlaut, ascii] {
        guard.await.unwrap().unwrap().release().await.unwrap();
    }
    locks.shutdown().await;
}

/// A grant is a message, which must carry any name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_strange_keys_are_served() {
    let fixture = Fixture::start().await;
    let other = connected(patient(fixture.url())).await;
    for key in strange() {
        let guard = fixture.locks().lock(&*key).acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock(&*key).acquire());
        let waiting = "SELECT count(*) FROM distributed_lock.waiting";
        eventually("it waits", || fixture.query::<usize>(waiting) == 1);
        guard.release().await.unwrap();
        let guard = soon(waiter).await.unwrap().unwrap();
        assert!(guard.fencing_token().await.unwrap() > 0);
        guard.release().await.unwrap();
    }
    other.shutdown().await;
}

#[tokio::test]
async fn empty_key_is_rejected() {
    let fixture = Fixture::start().await;
    let error = fixture.locks().lock("").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
}
