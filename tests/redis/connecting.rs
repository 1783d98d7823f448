//! Ways to connect: TCP, a Unix socket, TLS; with a database, a password or a user.

use lock_runtime::{Config, LockManager};

use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, silent};
use lock_test_support::permissions;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::{Server, tls_options};
use lock_test_support::time::{Timed, millis, patient, soon};

/// Asserts that a lock can be acquired, appears in `database`, and can be released.
async fn works(server: &Server, config: impl Into<Config>, database: u32) {
    let locks = soon(LockManager::connect(silent(config))).await.unwrap();
    let guard = locks.lock("row").acquire().await.unwrap();
    let keyspace: String = server.query("INFO keyspace");
    assert!(
        keyspace.contains(&format!("db{database}:keys=1")),
        "{keyspace}"
    );
    assert!(guard.fencing_token().await.unwrap() > 0);
    guard.release().await.unwrap();
    server.query::<()>("FLUSHALL");
}

#[tokio::test]
async fn tcp_url_selects_database() {
    let server = Server::start();
    works(&server, server.url(), 0).await;
    works(&server, format!("redis://localhost:{}", server.port()), 0).await;
    works(&server, format!("redis://127.0.0.1:{}/3", server.port()), 3).await;
}

#[tokio::test]
async fn unix_socket_url_selects_database() {
    let server = Server::start();
    let socket = server.socket().display().to_string();
    works(&server, format!("redis+unix://{socket}"), 0).await;
    works(&server, format!("redis+unix://{socket}?db=2"), 2).await;
}

#[tokio::test]
async fn password_authenticates_in_url_and_config() {
    let server = Server::with_password("open sesame");
    let port = server.port();
    works(
        &server,
        format!("redis://:open%20sesame@127.0.0.1:{port}"),
        0,
    )
    .await;
    works(
        &server,
        Config::new(server.url()).credentials("default", "open sesame"),
        0,
    )
    .await;
    let socket = server.socket().display().to_string();
    works(
        &server,
        format!("redis+unix://{socket}?pass=open%20sesame"),
        0,
    )
    .await;
}

/// A user with only the permissions that locks need.
#[tokio::test]
async fn user_with_minimal_permissions_authenticates() {
    let server = Server::start();
    let [commands, _] = permissions::commands();
    server.query::<()>(&format!(
        "ACL SETUSER clerk on >s3cret ~lock:* &lock:* {commands}"
    ));
    let port = server.port();
    works(&server, format!("redis://clerk:s3cret@127.0.0.1:{port}"), 0).await;
    works(
        &server,
        Config::new(server.url()).credentials("clerk", "s3cret"),
        0,
    )
    .await;
    let socket = server.socket().display().to_string();
    works(
        &server,
        format!("redis+unix://{socket}?user=clerk&pass=s3cret"),
        0,
    )
    .await;
}

#[tokio::test]
async fn tls_accepts_custom_root_certificate() {
    let certificates = Certificates::issue();
    let server = Server::with_tls(&certificates);
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("rediss://{host}:{}/1", server.port());
        let config = Config::new(url).root_certificate(certificates.authority.clone());
        works(&server, config, 1).await;
    }
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_accepted() {
    let certificates = Certificates::issue();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let server = Server::with(None, |directory, port| {
            let mut options = tls_options(&certificates, directory, port);
            options.extend(["--tls-protocols", version].map(str::to_owned));
            options
        });
        let url = format!("rediss://127.0.0.1:{}/", server.port());
        let config = Config::new(url).root_certificate(certificates.authority.clone());
        works(&server, config, 0).await;
    }
}

/// Each connection takes one round trip beside TCP's, for all commands that log in and set it up. The first
/// one also checks the permissions.
#[tokio::test]
async fn connect_takes_few_round_trips() {
    let _timed = Timed::start();
    let server = Server::start();
    let proxy = Proxy::to(server.port());
    // What the client sends without awaiting a reply leaves it in a much shorter time.
    proxy.delay_replies(millis(400));
    let locks = connected(silent(patient(proxy.url()))).await;
    let trips = proxy.round_trips();
    let (first, later) = trips.split_first().unwrap();
    let few = *first <= 7 && later.iter().all(|trips| *trips <= 1);
    assert!(few, "{trips:?} round trips");
    locks.shutdown().await;
}
