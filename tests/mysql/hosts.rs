//! Several hosts in the URL, some of which hang or accept no writes.

use std::net::TcpListener;

use lock_test_support::manager::{connected, refusal, use_once};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::{eventually, millis, patient};

pub fn url_at(ports: &[u16]) -> String {
    let hosts: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    format!("mysql://root@{}/shop", hosts.join(","))
}

#[tokio::test]
async fn a_host_that_hangs_hides_no_other() {
    let server = MariaDb::start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    for ports in [[silent, server.port()], [server.port(), silent]] {
        let config = patient(url_at(&ports)).connect_timeout(millis(6000));
        let locks = connected(config).await;
        use_once(&locks, "row").await;
        locks.shutdown().await;
    }
}

/// As of a primary that was demoted: its user may still write.
#[tokio::test]
async fn server_that_becomes_read_only_is_left_for_the_one_that_accepts_writes() {
    let (one, other) = (MariaDb::start(), MariaDb::start());
    other.query("SET GLOBAL read_only = ON");
    let locks = connected(patient(url_at(&[other.port(), one.port()]))).await;
    use_once(&locks, "row").await;
    // The server notices a moment later that a client has left.
    eventually("the first one is left", || other.sessions().is_empty());
    one.query("SET GLOBAL read_only = ON");
    other.query("SET GLOBAL read_only = OFF");
    // Its user is `root`, who writes to a server that is read-only.
    one.end_sessions();
    use_once(&locks, "row").await;
    eventually("the other one is used", || other.sessions().len() == 1);
    locks.shutdown().await;
}

#[tokio::test]
async fn error_names_each_host() {
    let (one, other) = (MariaDb::start(), MariaDb::start());
    one.query("SET GLOBAL read_only = ON");
    other.query("DROP DATABASE shop");
    let (_, text) = refusal(url_at(&[one.port(), other.port()]), "no secret").await;
    for words in [
        format!("127.0.0.1:{}`: the server is read-only", one.port()),
        format!("127.0.0.1:{}`: Unknown database 'shop'", other.port()),
    ] {
        assert!(text.contains(&words), "no `{words}` in: {text}");
    }
}
