//! What a user needs rights for.

use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use crate::engine::tests::peer::{Peer, reading, soon, text};
use lock_test_support::etcd::Etcd;

/// Starts etcd with the users `locks`, who may use the keys below `lock:`, `viewer`, who may read them, and
/// `row`, who may use what the one lock needs.
fn with_users() -> Etcd {
    let mut etcd = Etcd::start();
    for name in ["root", "locks", "viewer", "row"] {
        etcd.ctl(&["user", "add", &format!("{name}:secret")]);
        etcd.ctl(&["role", "add", name]);
        etcd.ctl(&["user", "grant-role", name, name]);
    }
    for (role, right, prefix) in [
        ("locks", "readwrite", "lock:"),
        ("viewer", "read", "lock:"),
        ("viewer", "readwrite", "lock:::epochs:"),
        ("row", "readwrite", "lock:row/"),
        ("row", "readwrite", "lock:::epochs:"),
        ("row", "readwrite", "lock:::fence"),
    ] {
        etcd.ctl(&[
            "role",
            "grant-permission",
            "--prefix=true",
            role,
            right,
            prefix,
        ]);
    }
    etcd.ctl(&["auth", "enable"]);
    etcd.log_in("root:secret");
    etcd
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_leave_locks_working() {
    let etcd = with_users();
    let user =
        async |name| Peer::connect(Config::new(etcd.url()).credentials(name, "secret")).await;
    let (mut locks, viewer, mut row) =
        (user("locks").await, user("viewer").await, user("row").await);
    let held = locks.hold("row").await;
    let waits = row.wait("row").await;
    locks.report("here").await;
    locks.ask("report").await;
    locks.hears("report").await;

    let expected = [[text(&held)], [text(&waits)]];
    assert_eq!(viewer.view("row").await, expected);
    assert_eq!(viewer.keys("", 9).await, ["row"]);
    let of = Some(&[locks.id][..]);
    assert_eq!(viewer.reports(None).await.len(), 1);
    assert_eq!(viewer.reports(of).await.len(), 1);
    let report = async |of: &Peer| of.engine.report(of.id, "here".into(), soon()).await;
    let token = text(&held);
    let refused = [
        report(&viewer).await.err(),
        viewer.engine.ask("report", soon()).await.err(),
        viewer
            .engine
            .take(&held.name, &token, 0, soon())
            .await
            .err(),
        report(&row).await.err(),
        row.engine.reports(None, reading()).await.err(),
        row.engine.reports(of, reading()).await.err(),
        row.engine.ask("report", soon()).await.err(),
        row.engine.names("lock:", 9, reading()).await.err(),
    ];
    for (n, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("{n} is not refused"));
        assert_eq!(error.kind, EngineErrorKind::Rejected, "{n}: {error}");
        let words = error.to_string();
        assert!(words.contains("permission denied"), "{n}: {words}");
    }
    assert!(locks.take_from(&held).await.held);
    let granted = row.until_granted(&waits).await;
    assert!(row.take_from(&granted).await.held);
    assert!(!row.release(&granted).await);
    assert!(!locks.release(&held).await);
}
