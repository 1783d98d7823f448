//! Invalid input is rejected in time, with an error that names the cause and reveals no secret.

use std::error::Error;
use std::net::TcpListener;
use std::time::Duration;

use lock_runtime::{Config, Holder, LockError, LockManager};

use super::fixture::Fixture;
use lock_test_support::certificates::Certificates;
use lock_test_support::manager::connected;
use lock_test_support::server::{Server, free_port};
use lock_test_support::time::{NOISE, Stopwatch, millis, within};

const SECRET: &str = "correct-horse";

/// Returns the error of connecting with this configuration, or of the first acquisition; within 2 s.
async fn refusal(config: impl Into<Config>) -> LockError {
    let config = config
        .into()
        .connect_timeout(millis(1000))
        .command_timeout(millis(300));
    keeps_secrets(&config);
    let start = Stopwatch::start();
    let error = match LockManager::connect(config).await {
        Ok(locks) => {
            keeps_secrets(&locks);
            locks
                .lock("row")
                .wait(millis(500))
                .acquire()
                .await
                .unwrap_err()
        }
        Err(error) => error,
    };
    let took = start.elapsed();
    assert!(took < millis(1500) + NOISE, "{took:?} for: {error}");
    keeps_secrets(&error);
    error
}

fn text(error: &LockError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[track_caller]
fn keeps_secrets(shown: &impl std::fmt::Debug) {
    for text in [format!("{shown:?}"), format!("{shown:#?}")] {
        assert!(!text.contains(SECRET), "the secret is shown: {text}");
    }
}

/// Asserts that the error contains one of the words, in any case, and not the secret.
#[track_caller]
fn says(error: &LockError, words: &[&str]) {
    let text = text(error);
    let small = text.to_lowercase();
    assert!(
        words.iter().any(|word| small.contains(word)),
        "none of {words:?} in: {text}"
    );
    assert!(!text.contains(SECRET), "the secret is shown: {text}");
}

#[tokio::test]
async fn bad_url_is_rejected() {
    for (url, words) in [
        ("", ["url", "empty"]),
        ("localhost", ["url", "redis://"]),
        ("redis://", ["url", "host"]),
        ("http://127.0.0.1", ["http", "scheme"]),
        ("redis://127.0.0.1:notaport/", ["port", "url"]),
        ("redis://127.0.0.1:99999/", ["port", "url"]),
        ("redis://127.0.0.1/minus-one", ["database", "url"]),
        (
            "redis://user:correct-horse@127.0.0.1:notaport/",
            ["port", "url"],
        ),
        ("redis://user:correct-horse@:/x y", ["url", "host"]),
        (
            "gopher://user:correct-horse@127.0.0.1/",
            ["gopher", "scheme"],
        ),
        ("redis+unix://?pass=correct-horse", ["path", "socket"]),
        ("redis://127.0.0.1/?db=3", ["parameter", "url"]),
        (
            "redis://127.0.0.1/?password=correct-horse",
            ["parameter", "url"],
        ),
        (
            "redis+unix:///tmp/x?password=correct-horse",
            ["parameter", "url"],
        ),
        ("redis://127.0.0.1/0/1", ["database", "url"]),
    ] {
        let error = refusal(url).await;
        assert!(
            matches!(error, LockError::InvalidConfig { .. }),
            "`{url}`: {error:?}"
        );
        says(&error, &words);
    }
}

#[tokio::test]
async fn wrong_password_is_rejected() {
    let server = Server::with_password("right");
    let wrong = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    says(&refusal(wrong).await, &["password", "credentials"]);
    says(
        &refusal(server.url()).await,
        &["password", "credentials", "auth"],
    );
    let user = Config::new(server.url()).credentials("nobody", SECRET);
    says(&refusal(user).await, &["password", "credentials"]);
    let socket = format!("redis+unix://{}?pass={SECRET}", server.socket().display());
    says(&refusal(socket).await, &["password", "credentials"]);
}

#[tokio::test]
async fn missing_database_is_rejected() {
    let server = Server::start();
    let error = refusal(format!("redis://127.0.0.1:{}/4000", server.port())).await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    says(&error, &["db index is out of range"]);
}

#[tokio::test]
async fn password_for_server_without_password_is_rejected() {
    let server = Server::start();
    let config = Config::new(server.url()).credentials("", SECRET);
    let error = refusal(config).await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    says(&error, &["password"]);
}

#[tokio::test]
async fn sentinel_url_as_server_url_is_rejected() {
    let sentinels = lock_test_support::sentinel::Sentinels::start();
    let port = sentinels.sentinel_ports().next().unwrap();
    let error = refusal(format!("redis://127.0.0.1:{port}")).await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
    says(&error, &["redis-sentinel://"]);
}

#[tokio::test]
async fn unreachable_address_is_unavailable() {
    let port = free_port();
    let error = refusal(format!("redis://clerk:{SECRET}@127.0.0.1:{port}")).await;
    assert!(error.is_unavailable(), "{error:?}");
    says(&error, &[&port.to_string()]);

    let error = refusal("redis+unix:///nowhere/redis.sock").await;
    assert!(error.is_unavailable(), "{error:?}");
    says(&error, &["/nowhere/redis.sock"]);
}

#[tokio::test]
async fn silent_server_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for scheme in ["redis", "rediss"] {
        let error = refusal(format!("{scheme}://clerk:{SECRET}@127.0.0.1:{port}")).await;
        assert!(error.is_unavailable(), "{error:?}");
        says(&error, &[&port.to_string()]);
    }
}

#[tokio::test]
async fn http_server_is_rejected() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let reply = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, reply).await;
        }
    });
    says(
        &refusal(format!("redis://127.0.0.1:{port}")).await,
        &[&port.to_string()],
    );
}

#[tokio::test]
async fn wrong_tls_setup_is_rejected() {
    let certificates = Certificates::issue();
    let server = Server::with_tls(&certificates);
    let port = server.port();
    // No TLS where it is required.
    says(
        &refusal(format!("redis://:{SECRET}@127.0.0.1:{port}")).await,
        &[&port.to_string()],
    );
    // An unknown authority, and a wrong one.
    let url = format!("rediss://:{SECRET}@127.0.0.1:{port}");
    says(&refusal(url.as_str()).await, &["certificate", "tls"]);
    let other = Config::new(url).root_certificate(Certificates::issue().authority);
    says(&refusal(other).await, &["certificate", "tls"]);
    // TLS where there is none.
    let plain = Server::start();
    says(
        &refusal(format!("rediss://127.0.0.1:{}", plain.port())).await,
        &["rediss"],
    );
    // Certificates that are not checked.
    let unchecked = refusal(format!("rediss://127.0.0.1:{port}/#insecure")).await;
    assert!(matches!(unchecked, LockError::InvalidConfig { .. }));
    says(&unchecked, &["`root_certificate`"]);
    // No certificate at all.
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    for junk in ["", SECRET, empty] {
        let junk = Config::new(format!("rediss://127.0.0.1:{port}")).root_certificate(junk);
        let error = refusal(junk).await;
        assert!(
            matches!(error, LockError::InvalidConfig { .. }),
            "{error:?}"
        );
        says(&error, &["`root_certificate`"]);
    }
}

#[tokio::test]
async fn invalid_key_is_rejected() {
    let fixture = Fixture::start().await;
    let empty = fixture.locks().lock("").acquire().await.unwrap_err();
    assert!(matches!(empty, LockError::InvalidKey { .. }), "{empty:?}");
    says(&empty, &["empty"]);
    assert!(fixture.locks().lock("").try_acquire().await.is_err());

    let giant = "k".repeat((512 << 20) + 1);
    let start = Stopwatch::start();
    let error = fixture.locks().lock(giant).acquire().await.unwrap_err();
    assert!(start.elapsed() < millis(3000), "{:?}", start.elapsed());
    assert!(matches!(error, LockError::InvalidKey { .. }));
    assert!(
        text(&error).len() < 1000 && format!("{error:?}").len() < 1000,
        "the error does not contain the whole key"
    );
    says(&error, &["512"]);
}

#[tokio::test]
async fn invalid_duration_is_rejected() {
    let fixture = Fixture::start().await;
    let refused = async |lock: lock_runtime::Lock| {
        within(NOISE, lock.acquire())
            .await
            .map(|guard| guard.remaining())
            .unwrap_err()
    };
    for ttl in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::MAX,
        millis(i64::MAX as u64),
    ] {
        let error = refused(fixture.locks().lock("row").ttl(ttl)).await;
        assert!(
            matches!(error, LockError::InvalidOption { .. }),
            "{ttl:?}: {error:?}"
        );
        says(&error, &["ttl"]);

        let default = Config::new(fixture.url()).ttl(ttl);
        let error = refusal(default).await;
        says(&error, &["ttl"]);
    }
    let error = refused(fixture.locks().lock("row").max_hold(Duration::ZERO)).await;
    assert!(
        matches!(error, LockError::InvalidOption { .. }),
        "{error:?}"
    );
    says(&error, &["max_hold"]);
    assert_eq!(fixture.query::<usize>("DBSIZE"), 0, "no lock was acquired");
}

/// Another program stores a list, or a value without an expiry, at the key.
#[tokio::test]
async fn foreign_key_is_busy_and_said_to_be_none_of_a_lock() {
    let fixture = Fixture::start().await;
    for (command, known, words) in [
        (
            "RPUSH lock:row a b",
            Holder::ForeignValue,
            "not that of a lock",
        ),
        ("SET lock:row x", Holder::NeverExpires, "never expires"),
    ] {
        fixture.query::<()>(command);
        for lock in [
            fixture.locks().lock("row"),
            fixture.locks().lock("row").read(),
        ] {
            let error = lock.wait(NOISE).acquire().await.unwrap_err();
            let LockError::Busy { holder, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(*holder, known, "{error}");
            for words in ["timed out after", words, "delete the key", "`row`"] {
                says(&error, &[words]);
            }
        }
        fixture.query::<()>("DEL lock:row");
    }
    let foreign = fixture.locks().lock("row").acquire().await.unwrap();
    foreign.release().await.unwrap();
}

#[tokio::test]
async fn debug_output_shows_no_secret() {
    let server = Server::with_password(SECRET);
    let url = format!("redis://:{SECRET}@127.0.0.1:{}", server.port());
    let locks = connected(url).await;
    keeps_secrets(&locks);
    let lock = locks.lock("row");
    keeps_secrets(&lock);
    let guard = lock.acquire().await.unwrap();
    keeps_secrets(&guard);
    guard.release().await.unwrap();
}
