//! Certificates of clients, beyond the cases of `conformance::bad_input`: topologies of several servers, and
//! users that a certificate names.

use lock_runtime::{Config, LockError, LockManager};

use super::{USER, text};
use lock_test_support::certificates::Certificates;
use lock_test_support::cluster::Cluster;
use lock_test_support::manager::connected;
use lock_test_support::postgres::Postgres;
use lock_test_support::sentinel::{Sentinels, Setup};
use lock_test_support::server::Server;
use lock_test_support::time::{PATIENCE, millis, patient, soon};
use tokio::task::spawn_blocking;

/// What a client has.
struct Client {
    authority: String,
    certificate: (String, String),
}

impl Client {
    fn of(certificates: &Certificates) -> Self {
        Self {
            authority: certificates.authority.clone(),
            certificate: certificates.of_client("client"),
        }
    }

    fn config(&self, config: Config) -> Config {
        let (certificate, key) = self.certificate.clone();
        config
            .root_certificate(&*self.authority)
            .client_certificate(certificate, key)
    }

    /// Locks work with the certificate, and connecting fails without one, and with another authority's.
    async fn is_demanded(&self, config: Config) {
        let known = self.config(patient(config.clone()));
        let locks = connected(known.clone()).await;
        let others = connected(known).await;
        for n in 0..6 {
            let key = format!("row:{n}");
            let guard = locks.lock(&key).acquire().await.unwrap();
            let next = tokio::spawn(others.lock(&key).wait(PATIENCE).acquire());
            tokio::time::sleep(millis(20)).await;
            guard.release().await.unwrap();
            let next = soon(next).await.unwrap().unwrap();
            next.release().await.unwrap();
        }
        locks.shutdown().await;
        others.shutdown().await;

        let without = config.clone().root_certificate(&*self.authority);
        let (certificate, key) = Certificates::issue().of_client("client");
        let unknown = without.clone().client_certificate(certificate, key);
        for config in [without, unknown] {
            let error = LockManager::connect(patient(config)).await.unwrap_err();
            assert!(error.is_unavailable(), "{}", text(&error));
            let named = text(&error).contains("`client_certificate`");
            assert!(named, "{}", text(&error));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_their_servers_demand_certificates() {
    let certificates = Certificates::demanded();
    let all = Sentinels::with(&Setup {
        certificates: Some(&certificates),
        ..Setup::default()
    });
    let config = Config::new(all.url_with("rediss-sentinel://"));
    Client::of(&certificates).is_demanded(config).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_cluster_demand_certificates() {
    let certificates = Certificates::demanded();
    let client = Client::of(&certificates);
    let start = || Cluster::plan().tls(certificates).start();
    let cluster = spawn_blocking(start).await.unwrap();
    let url = cluster.url().replace("redis-cluster:", "rediss-cluster:");
    client.is_demanded(Config::new(url)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_quorum_demand_certificates() {
    let certificates = Certificates::demanded();
    let servers = [(); 3].map(|()| Server::with_tls(&certificates));
    let url = |server: &Server| server.url().replace("redis:", "rediss:");
    let config = Config::quorum(servers.iter().map(url));
    Client::of(&certificates).is_demanded(config).await;
}

/// PostgreSQL takes the certificate for a password, if it has the name of the user.
#[tokio::test(flavor = "multi_thread")]
async fn certificate_proves_the_user_of_postgres() {
    let certificates = Certificates::demanded();
    let mut server = Postgres::with_tls(&certificates);
    server.execute(&format!("CREATE ROLE {USER} SUPERUSER LOGIN"));
    server.admit("hostssl all all all cert");
    server.restart();
    let as_client = |name: &str| {
        let (certificate, key) = certificates.of_client(name);
        let config = Config::new(server.url_for(USER)).root_certificate(&*certificates.authority);
        config.client_certificate(certificate, key)
    };
    let locks = connected(patient(as_client(USER))).await;
    let guard = locks.lock("row").acquire().await.unwrap();
    guard.release().await.unwrap();
    locks.shutdown().await;
    let error = LockManager::connect(patient(as_client("other"))).await;
    let error = error.unwrap_err();
    let is_invalid = matches!(error, LockError::InvalidConfig { .. });
    let says = text(&error).contains("certificate authentication failed");
    assert!(is_invalid && says, "{}", text(&error));
}
