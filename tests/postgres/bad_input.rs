//! Invalid input is rejected in time, with an error that names the cause and the remedy and reveals no secret.

use std::net::TcpListener;
use std::time::Duration;

use lock_runtime::{Config, LockError};

use super::fixture::Fixture;
use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, refusal};
use lock_test_support::postgres::{Postgres, url_at};
use lock_test_support::server::{Server, free_port};
use lock_test_support::time::{NOISE, Stopwatch, millis, patient, within};

const SECRET: &str = "correct-horse";

/// Asserts that connecting fails in time with an error that contains one of the words, in any case.
async fn is_refused(config: impl Into<Config>, words: &[&str]) -> LockError {
    let (error, text) = refusal(config, SECRET).await;
    let small = text.to_lowercase();
    assert!(
        words.iter().any(|word| small.contains(word)),
        "none of {words:?} in: {text}"
    );
    error
}

#[tokio::test]
async fn bad_url_is_rejected() {
    for (url, words) in [
        ("postgres://", ["url", "host"]),
        ("postgres://127.0.0.1:notaport/db", ["port", "url"]),
        ("postgresql://127.0.0.1:99999/db", ["port", "url"]),
        (
            "postgres://user:correct-horse@127.0.0.1:notaport/db",
            ["port", "url"],
        ),
        (
            "postgres://user:correct-horse@127.0.0.1,127.0.0.2:x/db",
            ["port", "url"],
        ),
        // An `@` in a password is no separator, and what follows it no host.
        (
            "postgres://user:corr@ect-horse@127.0.0.1/db",
            ["`@`", "%40"],
        ),
        (
            "postgres://user:correct-horse@127.0.0.1/db@x",
            ["`@`", "%40"],
        ),
        (
            "postgres://user:corr/ect-horse@127.0.0.1/db",
            ["`@`", "%40"],
        ),
        (
            "postgres://user:correct-horse@127.0.0.1,/db",
            ["host", "url"],
        ),
        (
            "postgres://127.0.0.1/db?shcema=locks",
            ["`shcema`", "shcema"],
        ),
        ("postgres://127.0.0.1/db?schema=", ["schema", "parameter"]),
        ("postgres://127.0.0.1/db?schema=Shop", ["schema", "schema"]),
        ("postgres://127.0.0.1/db?sslmode=prefer", ["sslmode", "tls"]),
        (
            "postgres://127.0.0.1/db?listen=nowhere:x",
            ["`listen`", "`listen`"],
        ),
        (
            "postgres://127.0.0.1/db?listen=user:correct-horse@127.0.0.1",
            ["`@`", "%40"],
        ),
        (
            "postgres://127.0.0.1/db?listen=[::1:5432",
            ["`listen`", "`listen`"],
        ),
    ] {
        let error = is_refused(url, &words).await;
        assert!(
            matches!(error, LockError::InvalidConfig { .. }),
            "`{url}`: {error:?}"
        );
    }
}

#[tokio::test]
async fn unreachable_address_is_unavailable() {
    let port = free_port();
    let url = format!("postgres://clerk:{SECRET}@127.0.0.1:{port}/postgres");
    let error = is_refused(url, &[&port.to_string()]).await;
    assert!(error.is_unavailable(), "{error:?}");

    let unknown = format!("postgres://clerk:{SECRET}@no-such-host.invalid/postgres");
    let error = is_refused(unknown, &["no-such-host.invalid"]).await;
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn silent_server_is_unavailable_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("postgres://clerk:{SECRET}@127.0.0.1:{port}/postgres");
    let config = Config::new(url).connect_timeout(millis(1000));
    let start = Stopwatch::start();
    let error = lock_runtime::LockManager::connect(config)
        .await
        .unwrap_err();
    assert!(
        start.elapsed() < millis(1000) + NOISE,
        "{:?}",
        start.elapsed()
    );
    assert!(error.is_unavailable(), "{error:?}");
    assert!(!format!("{error} {error:?}").contains(SECRET));
}

/// Something else listens there.
#[tokio::test]
async fn other_servers_are_rejected() {
    let redis = Server::start();
    is_refused(url_at(redis.port()), &[&redis.port().to_string()]).await;

    let postgres = Postgres::start();
    let url = format!("redis://127.0.0.1:{}", postgres.port());
    is_refused(url, &[&postgres.port().to_string()]).await;
}

#[tokio::test]
async fn wrong_password_is_rejected() {
    let server = Postgres::start();
    server.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'");
    server.require_password();
    let port = server.port();
    for url in [
        format!("postgres://clerk:{SECRET}@127.0.0.1:{port}/postgres"),
        format!("postgres://nobody:{SECRET}@127.0.0.1:{port}/postgres"),
        format!("postgres://clerk@127.0.0.1:{port}/postgres"),
    ] {
        let error = is_refused(url, &["password", "credentials"]).await;
        assert!(
            matches!(error, LockError::InvalidConfig { .. }),
            "{error:?}"
        );
    }
    let config = Config::new(server.url()).credentials("clerk", SECRET);
    is_refused(config, &["password", "credentials"]).await;
}

#[tokio::test]
async fn credentials_of_the_configuration_win() {
    let server = Postgres::start();
    server.execute("CREATE ROLE clerk SUPERUSER LOGIN PASSWORD 'it%40s/@ right'");
    server.require_password();
    let config = Config::new(server.url()).credentials("clerk", "it%40s/@ right");
    let locks = connected(patient(config)).await;
    locks
        .lock("row")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let url = format!(
        "postgres://clerk:it%2540s%2F%40%20right@127.0.0.1:{}/postgres",
        server.port()
    );
    let locks = connected(patient(url)).await;
    locks
        .lock("row")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test]
async fn missing_database_is_rejected() {
    let server = Postgres::start();
    let url = format!("postgres://postgres@127.0.0.1:{}/nowhere", server.port());
    let error = is_refused(url, &["nowhere"]).await;
    assert!(
        matches!(error, LockError::InvalidConfig { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn full_server_is_unavailable() {
    let server = Postgres::with(&[
        ("max_connections", "4"),
        ("superuser_reserved_connections", "1"),
    ]);
    server.execute("CREATE ROLE clerk LOGIN; GRANT CREATE ON DATABASE postgres TO clerk");
    let mut clients = Vec::new();
    while server.connections() < 3 {
        clients.push(server.client().await);
    }
    let error = is_refused(server.url_for("clerk"), &["connection", "clients"]).await;
    assert!(error.is_unavailable(), "{error:?}");
}

/// A standby answers, and can keep no lock.
#[tokio::test]
async fn read_only_standby_is_rejected() {
    let server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let standby = server.standby();
    is_refused(
        standby.url(),
        &["read-only", "standby", "read-write", "writes"],
    )
    .await;
}

#[tokio::test]
async fn wrong_tls_setup_is_rejected() {
    // TLS where there is none.
    let server = Postgres::start();
    is_refused(format!("{}?sslmode=require", server.url()), &["tls"]).await;
    // An unknown authority, and a wrong one.
    let certificates = Certificates::issue();
    let server = Postgres::with_tls(&certificates);
    let url = format!("{}?sslmode=require", server.url());
    is_refused(url.as_str(), &["certificate", "tls"]).await;
    let other = Config::new(&url).root_certificate(Certificates::issue().authority);
    is_refused(other, &["certificate", "tls"]).await;
    // The right one.
    let config = Config::new(url).root_certificate(certificates.authority);
    let locks = connected(patient(config)).await;
    locks
        .lock("row")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let encrypted = "SELECT count(*) FROM pg_stat_ssl WHERE ssl";
    assert!(server.query::<usize>(encrypted) > 0);
}

#[tokio::test]
async fn invalid_duration_is_rejected() {
    let fixture = Fixture::start().await;
    for ttl in [Duration::ZERO, millis(1), Duration::MAX] {
        let acquire = fixture.locks().lock("row").ttl(ttl).acquire();
        let error = within(NOISE, acquire).await.unwrap_err();
        assert!(
            matches!(error, LockError::InvalidOption { .. }),
            "{ttl:?}: {error:?}"
        );
        assert!(error.to_string().contains("ttl"), "{error}");
    }
    assert!(fixture.leftovers().is_empty());
}

/// The `replicas` of an acquisition are standbys.
#[tokio::test]
async fn replicas_without_a_synchronous_standby_are_rejected() {
    let fixture = Fixture::start().await;
    let error = fixture
        .locks()
        .lock("row")
        .replicas(1)
        .wait(millis(500))
        .acquire();
    let error = error.await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("synchronous"), "{text}");
    assert!(fixture.leftovers().is_empty(), "nothing is left behind");
}
