//! What a user needs rights for.

use super::process::{Process, soon, text};
use crate::config::Config;
use crate::engine::error::EngineErrorKind;
use lock_test_support::etcd::Etcd;
use std::sync::Arc;

/// Starts etcd with the users `locks`, who may use the keys below `lock:`, `viewer`, who may read them, and `row`, who may
/// use what the one lock needs.
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
        async |name| Process::connect(Config::new(etcd.url()).credentials(name, "secret")).await;
    let (mut locks, viewer, mut row) =
        (user("locks").await, user("viewer").await, user("row").await);
    let held = locks.hold("lock:row").await;
    let waits = row.wait("lock:row").await;
    locks.report("here").await;
    locks.engine.ask("report", soon()).await.unwrap();
    assert_eq!(&*locks.asked().await, "report");

    assert_eq!(
        viewer.view("lock:row").await,
        [[text(held.token)], [text(waits.token)]]
    );
    assert_eq!(viewer.names("lock:", 9).await, ["lock:row"].map(Arc::from));
    assert_eq!(viewer.reports(None).await.len(), 1);
    assert_eq!(viewer.reports(Some(&[locks.id])).await.len(), 1);
    let refused = [
        viewer
            .engine
            .report(viewer.id, "here".into(), soon())
            .await
            .err(),
        viewer.engine.ask("report", soon()).await.err(),
        viewer
            .engine
            .take("lock:row", &text(held.token), 0, soon())
            .await
            .err(),
        row.engine.report(row.id, "here".into(), soon()).await.err(),
        row.engine.reports(None, soon()).await.err(),
        row.engine.reports(Some(&[locks.id]), soon()).await.err(),
        row.engine.ask("report", soon()).await.err(),
        row.engine.names("lock:", 9, soon()).await.err(),
    ];
    for (n, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("{n} is not refused"));
        assert_eq!(error.kind, EngineErrorKind::Rejected, "{n}: {error}");
        assert!(
            error.to_string().contains("permission denied"),
            "{n}: {error}"
        );
    }
    assert!(locks.take("lock:row", &text(held.token)).await.0);
    row.until_granted(&waits).await;
    assert!(row.take("lock:row", &text(waits.token)).await.0);
    assert!(!row.release(&waits).await);
    assert!(!locks.release(&held).await);
}
