//! Several hosts in the URL, some of which hang, refuse, or accept no writes.

use std::net::TcpListener;

use lock_runtime::{Config, LockError, LockManager};

use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, refusal, refusal_of, use_once};
use lock_test_support::postgres::Postgres;
use lock_test_support::proxy::Proxy;
use lock_test_support::server::free_port;
use lock_test_support::time::{Timed, millis, patient, soon};

fn url_at(ports: &[u16]) -> String {
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    format!("postgres://postgres@{}/postgres", hosts.join(","))
}

/// Accepts connections, and answers none.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_host_that_hangs_hides_no_other() {
    let server = Postgres::start();
    let ((_one, one), (_other, other)) = (silent(), silent());
    for ports in [[one, other, server.port()], [one, server.port(), other]] {
        let config = patient(url_at(&ports)).connect_timeout(millis(6000));
        let locks = connected(config).await;
        use_once(&locks, "row").await;
        locks.shutdown().await;
    }
}

/// Attempts to replace a connection are short at first, and the share of each host is shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_left_for_the_promoted_one() {
    let _timed = Timed::start();
    let mut server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let mut standby = server.standby();
    let path = Proxy::to(server.port());
    let url = url_at(&[path.port(), standby.port()]);
    let config = patient(url).command_timeout(millis(3000));
    let locks = connected(config.connect_timeout(millis(6000))).await;
    use_once(&locks, "row").await;
    server.until_replayed_by(&standby);
    server.pause();
    standby.promote();
    let guard = soon(locks.lock("row").acquire()).await.unwrap();
    assert!(standby.is_held("row"));
    // A new connection begins with the server that the last one found, and needs no share of the other's
    // time.
    let before = path.connections();
    standby.terminate_connections();
    soon(use_once(&locks, "other")).await;
    assert_eq!(path.connections(), before);
    guard.release().await.unwrap();
    locks.shutdown().await;
}

#[tokio::test]
async fn hosts_that_hang_are_unavailable_in_time() {
    let ((_one, one), (_other, other)) = (silent(), silent());
    let config = Config::new(url_at(&[one, other])).connect_timeout(millis(1000));
    let error = soon(LockManager::connect(config)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

/// Each host may have a reason of its own.
#[tokio::test]
async fn an_error_names_each_host() {
    let server = Postgres::start();
    connected(server.url()).await.shutdown().await;
    let standby = server.standby();
    let nobody = free_port();
    let (error, text) = refusal(url_at(&[standby.port(), nobody]), "no secret").await;
    assert!(error.is_unavailable(), "{error:?}");
    for words in [
        format!(
            "127.0.0.1:{}`: the server accepts only reads",
            standby.port()
        ),
        format!("127.0.0.1:{nobody}`: "),
    ] {
        assert!(text.contains(&words), "no `{words}` in: {text}");
    }
}

/// A wrong password is wrong everywhere; a host that is down might have accepted it.
#[tokio::test]
async fn what_all_hosts_reject_is_invalid() {
    let server = Postgres::start();
    server.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'");
    server.require_password();
    let (up, down) = (server.port(), free_port());
    for (ports, is_invalid) in [([up, up], true), ([up, down], false), ([down, up], false)] {
        let config = Config::new(url_at(&ports)).credentials("clerk", "correct-horse");
        // Tries go on for that long, unless all hosts have answered.
        let timeout = millis(if is_invalid { 20_000 } else { 5000 });
        let (error, text) = refusal_of(config.connect_timeout(timeout), "correct-horse").await;
        assert!(text.contains("check the user and the password"), "{text}");
        assert_eq!(
            matches!(error, LockError::InvalidConfig { .. }),
            is_invalid,
            "{error:?}"
        );
    }
}

/// In the configuration, or encoded in the URL.
#[tokio::test]
async fn any_password_is_accepted() {
    let server = Postgres::start();
    server.execute("CREATE ROLE clerk SUPERUSER LOGIN PASSWORD 'it%40s/@ right'");
    server.require_password();
    let config = Config::new(server.url()).credentials("clerk", "it%40s/@ right");
    let url = Config::new(server.url_for("clerk:it%2540s%2F%40%20right"));
    for config in [config, url] {
        let locks = connected(patient(config)).await;
        use_once(&locks, "row").await;
    }
}

/// Though the server also serves clients without TLS.
#[tokio::test]
async fn required_tls_is_used() {
    let certificates = Certificates::issue();
    let server = Postgres::with_tls(&certificates);
    let url = format!("{}?sslmode=require", server.url());
    let config = Config::new(url).root_certificate(certificates.authority);
    let _locks = connected(patient(config)).await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl WHERE ssl";
    assert!(server.query::<usize>(encrypted) > 0);
}
