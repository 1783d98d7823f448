//! Leaders that have been replaced.

use crate::api::manager::LockManager;
use crate::engine::etcd::tests::scripted_server::ScriptedServer;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// A leader that was frozen does not know of its successor, and goes on to keep leases alive.
#[tokio::test]
async fn a_leader_with_a_successor_proves_no_lease() {
    let ttl = Duration::from_secs(1);
    let server = ScriptedServer::start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let guard = locks.lock("row").ttl(ttl).acquire().await.unwrap();
    // From then on only an answer to a later request can prove the lease.
    sleep_until(Instant::now() + ttl).await;
    assert!(!guard.is_valid());
    assert!(server.kept_alive() > 0, "it was not asked");
    drop(guard);
    locks.shutdown().await;
}
