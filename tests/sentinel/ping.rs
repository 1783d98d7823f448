//! Pings of the present master.

use lock_runtime::LockManager;

use lock_test_support::manager::{connected, until_pinged};
use lock_test_support::sentinel::Sentinels;
use lock_test_support::time::soon;

/// The first may discover the outage, the second knows of it.
async fn two_pings_fail(locks: &LockManager) {
    for _ in 0..2 {
        assert!(soon(locks.ping()).await.unwrap_err().is_unavailable());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ping_needs_the_present_master() {
    let mut all = Sentinels::start();
    let locks = connected(all.url()).await;
    until_pinged(&locks).await;
    let paused = all.pause_master();
    two_pings_fail(&locks).await;
    let new = all.until_failed_over(paused);
    until_pinged(&locks).await;
    all.resume(paused);
    all.until_settled();
    // The former master is a replica now, which does not matter.
    locks.ping().await.unwrap();
    assert_eq!(all.kill_master(), new);
    two_pings_fail(&locks).await;
    all.until_failed_over(new);
    until_pinged(&locks).await;
    all.restart(new);
}
