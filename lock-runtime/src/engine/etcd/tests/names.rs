//! The names of locks in use.

use super::process::{soon, three};
use lock_test_support::etcd::Etcd;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn names_of_locks_are_found_by_their_prefix() {
    let etcd = Etcd::start();
    let [one, other, operator] = three(&etcd).await;
    assert!(operator.names("lock:", 99).await.is_empty());
    operator.report("here").await;
    operator.engine.ask("report", soon()).await.unwrap();
    etcd.ctl(&["put", "lock:no-lock", ""]);
    etcd.ctl(&["put", "lock:%41/1", ""]);
    let mut claims = Vec::new();
    let mut names: Vec<String> = (0..70).map(|n| format!("lock:n{n:02}")).collect();
    names.extend(["lock:a", "lock:a/b%", "lock:b:c"].map(str::to_owned));
    for name in &names {
        claims.push(one.hold(name).await);
    }
    // One line is longer than a page.
    for _ in 0..70 {
        claims.push(other.wait("lock:n30").await);
    }
    names.sort();
    let mut found = operator.names("lock:", 99).await;
    found.sort();
    assert_eq!(found.iter().map(|name| &**name).collect::<Vec<_>>(), names);
    assert_eq!(operator.names("lock:a", 99).await.len(), 2);
    assert_eq!(
        operator.names("lock:a/", 99).await,
        ["lock:a/b%"].map(Arc::from)
    );
    assert_eq!(operator.names("lock:n", 35).await.len(), 35);
    assert_eq!(
        operator.names("lock:n30", 1).await,
        ["lock:n30"].map(Arc::from)
    );
    assert!(operator.names("lock:x", 99).await.is_empty());
    assert!(operator.names("lock::", 99).await.is_empty());
    etcd.ctl(&["del", "--prefix", "lock:%"]);
    etcd.ctl(&["del", "lock:no-lock"]);
    for claim in claims {
        // A process releases its own claims alone.
        assert_ne!(one.release(&claim).await, other.release(&claim).await);
    }
}
