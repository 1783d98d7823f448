//! The members of a quorum.

use lock_runtime::{Config, Warning, WarningKind};

use super::{KEEPS, assert_reported, name, server, strict, warnings};
use lock_test_support::manager::connected;
use lock_test_support::server::Server;
use lock_test_support::time::{eventually, millis, patient, soon};

fn quorum(members: [&Server; 3]) -> Config {
    patient(Config::quorum(members.map(Server::url)))
}

/// Returns the warnings once each member can be checked: those that connect last may not be yet.
async fn warnings_of_all(config: Config) -> Vec<Warning> {
    let locks = connected(config).await;
    let checked = async {
        loop {
            let found = locks.check_servers().await;
            if found.iter().all(|it| it.kind() != WarningKind::NotChecked) {
                return found;
            }
        }
    };
    soon(checked).await
}

#[tokio::test]
async fn each_member_is_checked() {
    let mut members = [server(&[]), server(&[]), server(&[])];
    let [a, b, c] = &members;
    assert_eq!(warnings_of_all(quorum([a, b, c])).await, []);
    strict(quorum([a, b, c])).await.unwrap();

    b.query::<()>("CONFIG SET appendfsync everysec");
    members[2].pause();
    let [a, b, c] = &members;
    let config = quorum([a, b, c]);
    let found = warnings(config).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_reported(&found, &name(b), &[(WarningKind::NotDurable, "everysec")]);
    assert_eq!(found[1].kind(), WarningKind::NotChecked);
    members[2].resume();
}

#[tokio::test]
async fn same_member_twice_is_reported() {
    let (a, b) = (server(&[]), server(&[]));
    let again = format!("redis://localhost:{}", a.port());
    let config = patient(Config::quorum([a.url(), b.url(), again.clone()]));
    let same = (WarningKind::DependentMembers, "the same server as");
    let found = warnings_of_all(config).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_reported(&found, &again, &[same]);
}

#[tokio::test]
async fn replicating_members_are_reported() {
    let a = server(&["--repl-diskless-sync-delay", "0"]);
    let b = server(&["--replicaof", &format!("127.0.0.1 {}", a.port())]);
    let c = server(&[]);
    eventually("one member replicates the other", || {
        let replication: String = b.query("INFO replication");
        replication.contains("master_link_status:up")
    });
    let found = warnings_of_all(quorum([&a, &b, &c])).await;
    let reported = [
        (WarningKind::ConnectedToReplica, "it is a replica of"),
        (WarningKind::DependentMembers, "replicate one another"),
    ];
    assert_reported(&found, &name(&b), &reported);
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn clock_skew_between_members_is_reported() {
    let (a, b) = (server(&[]), server(&[]));
    let c = Server::ahead(millis(60_000), &KEEPS);
    let found = warnings_of_all(quorum([&a, &b, &c])).await;
    let apart = (WarningKind::ClockSkew, "apart");
    assert_reported(&found, &name(&c), &[apart, apart]);
    assert_eq!(found.len(), 2, "{found:#?}");
}
