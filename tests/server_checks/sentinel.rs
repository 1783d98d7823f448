//! A master that Sentinels name, and its replicas.

use std::time::Duration;

use lock_runtime::{Config, Warning, WarningKind};

use super::{KEEPS, assert_reported, name, server, strict, warnings};
use lock_test_support::manager::connected;
use lock_test_support::sentinel::{Sentinels, Setup};
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, millis, patient, soon};

const TTL: Duration = Duration::from_secs(10);

fn config(all: &Sentinels) -> Config {
    patient(all.url()).ttl(TTL)
}

/// Starts a safe setup: locks persist, and no failover happens before they have ended.
fn start() -> Sentinels {
    let all = Sentinels::with(&Setup {
        down_after: Duration::from_secs(25),
        ..Setup::default()
    });
    for number in Sentinels::SERVERS {
        for setting in [
            "appendfsync always",
            "appendonly yes",
            "min-replicas-to-write 1",
            "min-replicas-max-lag 5",
        ] {
            let server = all.server(number);
            server.query::<()>(&format!("CONFIG SET {setting}"));
        }
    }
    all
}

fn reported(
    warnings: &[Warning],
    all: &Sentinels,
    number: usize,
    reported: &[(WarningKind, &str)],
) {
    assert_reported(warnings, &name(all.server(number)), reported);
}

#[tokio::test]
async fn failover_before_lease_end_is_reported() {
    let all = start();
    assert_eq!(warnings(config(&all)).await, []);
    strict(config(&all)).await.unwrap();

    let long = config(&all).ttl(Duration::from_secs(24));
    let early = (
        WarningKind::EarlyFailover,
        "`down-after-milliseconds` is 25000",
    );
    reported(&warnings(long.clone()).await, &all, 0, &[early]);
    reported(&warnings(long.clone().replicas(1)).await, &all, 0, &[early]);
    assert_eq!(warnings(long.replicas(2)).await, []);

    // The Sentinel with the shortest timeout counts.
    let shorter = "SENTINEL SET mymaster down-after-milliseconds 5000";
    all.sentinel(1).query::<()>(shorter);
    let locks = connected(config(&all)).await;
    let found = async {
        loop {
            let found = locks.check_servers().await;
            if !found.is_empty() {
                return found;
            }
        }
    };
    let found = soon(found).await;
    let early = (
        WarningKind::EarlyFailover,
        "`down-after-milliseconds` is 5000",
    );
    reported(&found, &all, 0, &[early]);
}

#[tokio::test]
async fn master_that_accepts_writes_when_isolated_is_reported() {
    let all = start();
    all.server(0)
        .query::<()>("CONFIG SET min-replicas-max-lag 15");
    let lag = (WarningKind::SplitBrain, "`min-replicas-max-lag` is 15 s");
    reported(&warnings(config(&all)).await, &all, 0, &[lag]);

    all.server(0)
        .query::<()>("CONFIG SET min-replicas-to-write 0");
    let none = (WarningKind::SplitBrain, "`min-replicas-to-write` is 0");
    reported(&warnings(config(&all)).await, &all, 0, &[none]);
}

#[tokio::test]
async fn replicas_are_checked() {
    let mut all = start();
    all.server(1).query::<()>("CONFIG SET appendonly no");
    all.server(2).query::<()>("CONFIG SET maxmemory 100mb");
    all.server(2)
        .query::<()>("CONFIG SET maxmemory-policy allkeys-lru");
    let found = warnings(config(&all)).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    reported(
        &found,
        &all,
        1,
        &[(WarningKind::NotDurable, "`appendonly`")],
    );
    reported(&found, &all, 2, &[(WarningKind::Eviction, "`allkeys-lru`")]);

    all.server_mut(2).pause();
    let found = warnings(config(&all).connect_timeout(millis(2000))).await;
    reported(
        &found,
        &all,
        2,
        &[(WarningKind::NotChecked, "can't be queried")],
    );
    all.server_mut(2).resume();
}

/// A lease is replicated as the time of its end.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn clock_skew_between_master_and_replica_is_reported() {
    let stops = "--min-replicas-to-write 1 --min-replicas-max-lag 5";
    let stops: Vec<_> = stops.split(' ').collect();
    let master = server(&[&stops[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let follows = format!("127.0.0.1 {}", master.port());
    let options = [&KEEPS[..], &stops, &["--replicaof", &follows]].concat();
    let replica = Server::ahead(millis(3000), &options);
    let settings = format!(
        "sentinel monitor mymaster {follows} 1\n\
         sentinel down-after-milliseconds mymaster 60000\n"
    );
    let sentinel = Server::sentinel(None, &settings, |_, _| Vec::new());
    let url = format!("redis-sentinel://127.0.0.1:{}/mymaster", sentinel.port());
    eventually("the replica is in sync", || {
        let replication: String = replica.query("INFO replication");
        replication.contains("master_link_status:up")
    });
    let found = warnings(patient(url).ttl(TTL)).await;
    let apart = (WarningKind::ClockSkew, "synchronize the clocks");
    assert_reported(&found, &name(&master), &[apart]);
    assert_eq!(found.len(), 1, "{found:#?}");
}
