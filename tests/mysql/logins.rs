//! Ways to log in, beside those of conformance.

use lock_runtime::Config;

use lock_test_support::certificates::Certificates;
use lock_test_support::manager::{connected, refusal, use_once};
use lock_test_support::mariadb::MariaDb;
use lock_test_support::time::patient;
use tokio::task::spawn_blocking;

use crate::credentials::rotation::{Account, rotate};
use crate::credentials::{SECRET, USER};

#[tokio::test]
async fn unix_socket_needs_no_port() {
    let server = MariaDb::start();
    let url = format!(
        "mysql://root@localhost:1/shop?socket={}",
        server.socket().display()
    );
    let locks = connected(patient(url)).await;
    use_once(&locks, "row").await;
    locks.shutdown().await;
}

#[tokio::test]
async fn user_logs_in_by_a_signature() {
    if MariaDb::is_mysql() {
        return;
    }
    let server = MariaDb::with(&["--plugin-load-add=auth_ed25519"]);
    server.query(&format!(
        "CREATE USER clerk IDENTIFIED VIA ed25519 USING PASSWORD('{SECRET}'); GRANT ALL ON shop.* TO clerk"
    ));
    let config = |password: &str| Config::new(server.url()).credentials("clerk", password);
    let locks = connected(patient(config(SECRET))).await;
    use_once(&locks, "row").await;
    locks.shutdown().await;
    let (error, text) = refusal(config("wrong-correct-horse"), SECRET).await;
    assert!(text.contains("check user and password"), "{error:?}");
}

/// A server that stands between the two would get it.
#[tokio::test]
async fn password_in_clear_text_is_refused_without_tls() {
    if MariaDb::is_mysql() {
        return;
    }
    let server = MariaDb::with(&["--plugin-load-add=auth_pam", "--pam-use-cleartext-plugin"]);
    server.query("CREATE USER clerk IDENTIFIED VIA pam USING 'mysql'");
    let config = Config::new(server.url()).credentials("clerk", SECRET);
    let (error, text) = refusal(config, SECRET).await;
    assert!(text.contains("the server asks for a login by"), "{error:?}");
}

#[tokio::test]
async fn user_that_must_show_a_certificate_shows_it() {
    let certificates = Certificates::issue();
    let server = MariaDb::with_tls(&certificates);
    server.query("CREATE USER clerk REQUIRE X509; GRANT ALL ON shop.* TO clerk");
    let (certificate, key) = certificates.of_client("clerk");
    let without =
        Config::new(server.url_for("clerk")).root_certificate(certificates.authority.as_bytes());
    let (error, _) = refusal(without.clone(), SECRET).await;
    assert!(!error.is_unavailable(), "{error:?}");
    let locks = connected(patient(
        without.client_certificate(certificate.as_bytes(), key.as_bytes()),
    ))
    .await;
    use_once(&locks, "row").await;
    locks.shutdown().await;
}

impl Account for MariaDb {
    fn set_password(&self, password: &str, _: bool) {
        self.query(&format!("ALTER USER {USER} IDENTIFIED BY '{password}'"));
    }

    fn kill_connections(&self) -> usize {
        self.end_sessions()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn password_of_mariadb_changes() {
    let server = spawn_blocking(MariaDb::start).await.unwrap();
    let by = match MariaDb::is_mysql() {
        true => "WITH caching_sha2_password BY",
        false => "BY",
    };
    server.query(&format!(
        "CREATE USER {USER} IDENTIFIED {by} '{SECRET}-0'; GRANT ALL ON shop.* TO {USER}"
    ));
    // Without TLS, MySQL sends a key to encrypt a password that it has not seen yet.
    let config = Config::new(format!("{}?get-server-public-key=true", server.url()));
    rotate(server, config).await;
}
